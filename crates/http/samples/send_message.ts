const response = await fetch("http://127.0.0.1:8080/api/v1/mail/send", {
  method: "POST",
  headers: {
    "X-MAILAPI-TOKEN": process.env.MAILAPI_TOKEN ?? "",
    "Idempotency-Key": "minutes-2026-11-20",
    "Content-Type": "application/json",
  },
  body: JSON.stringify({
    from: "Alice Lee <alice@example.test>",
    to: ["bob@example.test"],
    subject: "Meeting minutes",
    body: {
      text: "See attached.",
      html: "<p>See attached.</p>",
    },
    attachments: [
      {
        filename: "minutes.txt",
        content: "SGVsbG8h",
        content_type: "text/plain",
      },
    ],
  }),
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
