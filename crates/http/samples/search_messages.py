import os

import requests

response = requests.get(
    "http://127.0.0.1:8080/api/v1/mailbox/bob@example.test/search",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    params={"q": "minutes", "folder": "*"},
    timeout=30,
)
response.raise_for_status()
print(response.json())
