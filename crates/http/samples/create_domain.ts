const response = await fetch("http://127.0.0.1:8080/api/v1/domains", {
  method: "POST",
  headers: {
    "X-MAILAPI-TOKEN": process.env.MAILAPI_TOKEN ?? "",
    "Content-Type": "application/json",
  },
  body: JSON.stringify({
    domain: "example.test",
  }),
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
