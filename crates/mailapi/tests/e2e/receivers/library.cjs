// A receiver of webhooks that verifies with `standardwebhooks` of npm, or, as `library.cjs v1a`, with Ed25519 of Node.
// Environment, output and journal are those of library.py; WEBHOOK_SECRET is the public key of v1a.
const { createPublicKey, verify } = require("node:crypto");
const { appendFileSync } = require("node:fs");
const { createServer } = require("node:http");
const { createRequire } = require("node:module");

const { JOURNAL, LIBRARIES, PORT, WEBHOOK_SECRET } = process.env;

function ofLibrary() {
  const { Webhook } = createRequire(LIBRARIES)("standardwebhooks");
  const webhook = new Webhook(WEBHOOK_SECRET);
  return (body, headers) => webhook.verify(body, headers);
}

// No library of npm or PyPI verifies v1a, so this follows the text of the standard.
function ofStandard() {
  const x = Buffer.from(WEBHOOK_SECRET.replace("whpk_", ""), "base64").toString("base64url");
  const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
  return (body, headers) => {
    const { "webhook-id": id, "webhook-timestamp": at, "webhook-signature": signatures } = headers;
    const signed = Buffer.from(`${id}.${at}.${body}`);
    const isOne = ([version, signature]) => version === "v1a" && verify(null, signed, key, Buffer.from(signature, "base64"));
    if (!signatures.split(" ").some((each) => isOne(each.split(",")))) throw new Error("No matching signature found");
    if (Math.abs(Date.now() / 1000 - Number(at)) > 300) throw new Error("Message timestamp too old or too new");
  };
}

const check = process.argv[2] === "v1a" ? ofStandard() : ofLibrary();
const write = (entry) => appendFileSync(JOURNAL, `${JSON.stringify(entry)}\n`);
const server = createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const [body, { headers }] = [Buffer.concat(parts).toString(), request];
  try {
    check(body, headers);
    write({ headers, body });
    response.writeHead(204).end();
  } catch (error) {
    write({ refused: error.message });
    response.writeHead(401).end();
  }
});
server.listen(Number(PORT ?? 0), "127.0.0.1", () => console.log(server.address().port));
