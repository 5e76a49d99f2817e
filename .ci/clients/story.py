"""Bob gets a message from Alice: the story of the client of openapi-python-client, checked by mypy."""

import os
import time

from client import AuthenticatedClient
from client.api.mail import get_message_status, send_message
from client.api.mailbox import get_message, list_messages
from client.models.message import Message
from client.models.message_body import MessageBody
from client.models.message_state import MessageState
from client.models.message_status import MessageStatus
from client.models.messages_listed import MessagesListed
from client.models.send_request import SendRequest
from client.models.send_response import SendResponse

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
print("sent and read through the Python client")
