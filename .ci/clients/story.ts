// Bob gets a message from Alice: the story of the client of typescript-fetch, checked by tsc.
import assert from "node:assert/strict";

import { Configuration, CreateWebhookTypesEnum, EventsApi, MailApi, MailboxApi, WebhooksApi } from "./index.js";

const configuration = new Configuration({
  basePath: process.env.MAILAPI_URL ?? "",
  apiKey: process.env.MAILAPI_TOKEN ?? "",
});
const mail = new MailApi(configuration);
const mailbox = new MailboxApi(configuration);
const deadline = Date.now() + 60_000;

const sent = await mail.sendMessage({
  idempotencyKey: "story-typescript",
  sendRequest: {
    from: "Alice <alice@example.test>",
    to: ["bob@example.test"],
    subject: "TypeScript",
    body: { text: "Hello from TypeScript." },
  },
});

for (;;) {
  const { status } = await mail.getMessageStatus({ messageId: sent.messageId });
  if (status === "sent") break;
  assert(Date.now() < deadline, status);
  await new Promise((resolve) => setTimeout(resolve, 100));
}

const { messages } = await mailbox.listMessages({ email: "bob@example.test", limit: 1 });
const newest = messages[0];
assert(newest !== undefined);
const message = await mailbox.getMessage({ email: "bob@example.test", uid: newest.uid });
assert.deepEqual([message.subject, message.body.text], ["TypeScript", "Hello from TypeScript."]);

const timeline = await mail.getMessageTimeline({ messageId: sent.messageId });
assert.deepEqual(timeline.events.map((event) => event.type), ["message.accepted", "message.delivered"]);
const events = await new EventsApi(configuration).listEvents({ after: "start", messageId: sent.messageId });
assert.deepEqual(events.events, timeline.events);

const webhooks = new WebhooksApi(configuration);
const created = await webhooks.createWebhook({
  createWebhook: { url: "http://127.0.0.1:9/", types: [CreateWebhookTypesEnum.Message], enabled: false },
});
assert.match(created.secret ?? "", /^whsec_/);
assert.equal((await webhooks.listWebhooks({})).webhooks.at(-1)?.id, created.id);
console.log("sent, read and followed through the TypeScript client");
