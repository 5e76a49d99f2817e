"""Bob gets a message from Alice: the story of the client of openapi-python-client, checked by mypy."""

import os
import time

from client import AuthenticatedClient
from client.api.events import list_events
from client.api.mail import get_message_status, get_message_timeline, send_message
from client.api.mailbox import get_message, list_messages
from client.api.webhooks import create_webhook, list_webhooks
from client.models.create_webhook import CreateWebhook
from client.models.create_webhook_types_item import CreateWebhookTypesItem
from client.models.event_type_name import EventTypeName
from client.models.events_listed import EventsListed
from client.models.message import Message
from client.models.message_body import MessageBody
from client.models.message_state import MessageState
from client.models.message_status import MessageStatus
from client.models.message_timeline import MessageTimeline
from client.models.messages_listed import MessagesListed
from client.models.send_request import SendRequest
from client.models.send_response import SendResponse
from client.models.webhook_created import WebhookCreated
from client.models.webhooks_listed import WebhooksListed

DEADLINE = time.monotonic() + 60
CLIENT = AuthenticatedClient(
    base_url=os.environ["MAILAPI_URL"],
    token=os.environ["MAILAPI_TOKEN"],
    prefix="",
    auth_header_name="X-MAILAPI-TOKEN",
)
BODY = MessageBody(text="Hello from Python.")
REQUEST = SendRequest(from_="Alice <alice@example.test>", to=["bob@example.test"], subject="Python", body=BODY)

sent = send_message.sync(client=CLIENT, body=REQUEST, idempotency_key="story-python")
assert isinstance(sent, SendResponse), sent

while True:
    status = get_message_status.sync(sent.message_id, client=CLIENT)
    assert isinstance(status, MessageStatus), status
    if status.status == MessageState.SENT:
        break
    assert time.monotonic() < DEADLINE, status
    time.sleep(0.1)

listed = list_messages.sync("bob@example.test", client=CLIENT, limit=1)
assert isinstance(listed, MessagesListed), listed
message = get_message.sync("bob@example.test", listed.messages[0].uid, client=CLIENT)
assert isinstance(message, Message), message
assert (message.subject, message.body.text) == ("Python", "Hello from Python."), message

timeline = get_message_timeline.sync(sent.message_id, client=CLIENT)
assert isinstance(timeline, MessageTimeline), timeline
assert [event.type_ for event in timeline.events] == [EventTypeName.MESSAGE_ACCEPTED, EventTypeName.MESSAGE_DELIVERED]
events = list_events.sync(client=CLIENT, after="start", message_id=sent.message_id)
assert isinstance(events, EventsListed), events
assert [event.data.queue_id for event in events.events] == [event.data.queue_id for event in timeline.events]

WEBHOOK = CreateWebhook(url="http://127.0.0.1:9/", types=[CreateWebhookTypesItem.MESSAGE], enabled=False)
webhook = create_webhook.sync(client=CLIENT, body=WEBHOOK)
assert isinstance(webhook, WebhookCreated) and webhook.secret, webhook
webhooks = list_webhooks.sync(client=CLIENT)
assert isinstance(webhooks, WebhooksListed), webhooks
assert webhooks.webhooks[-1].id == webhook.id and webhooks.webhooks[-1].types == ["message.*"], webhooks
print("sent, read and followed through the Python client")
