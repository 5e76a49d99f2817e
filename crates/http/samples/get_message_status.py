import os

import requests

message_id = os.environ["MESSAGE_ID"]
response = requests.get(
    f"http://127.0.0.1:8080/api/v1/mail/{message_id}/status",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    timeout=30,
)
response.raise_for_status()
print(response.json())
