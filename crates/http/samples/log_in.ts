const response = await fetch("http://127.0.0.1:8080/api/v1/auth/login", {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({
    email: "alice@example.test",
    password: "correct horse battery staple",
  }),
});
if (!response.ok) throw new Error(await response.text());
console.log(await response.json());
