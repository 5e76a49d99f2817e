import os

import requests

response = requests.get(
    "http://127.0.0.1:8080/api/v1/mailbox/bob@example.test/messages/1/attachment/0",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    timeout=30,
)
response.raise_for_status()
with open("minutes.txt", "wb") as file:
    file.write(response.content)
