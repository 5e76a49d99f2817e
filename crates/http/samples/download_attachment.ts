import { writeFile } from "node:fs/promises";

const response = await fetch("http://127.0.0.1:8080/api/v1/mailbox/bob@example.test/messages/1/attachment/0", {
  headers: { "X-MAILAPI-TOKEN": process.env.MAILAPI_TOKEN ?? "" },
});
if (!response.ok) throw new Error(await response.text());
await writeFile("minutes.txt", new Uint8Array(await response.arrayBuffer()));
