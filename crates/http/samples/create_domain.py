import os

import requests

response = requests.post(
    "http://127.0.0.1:8080/api/v1/domains",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    json={
        "domain": "example.test",
    },
    timeout=30,
)
response.raise_for_status()
print(response.json())
