import os

import requests

response = requests.get(
    "http://127.0.0.1:8080/api/v1/mail/sent",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    params={"from": "alice@example.test", "limit": 20},
    timeout=30,
)
response.raise_for_status()
print(response.json())
