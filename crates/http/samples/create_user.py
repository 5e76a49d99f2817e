import os

import requests

response = requests.post(
    "http://127.0.0.1:8080/api/v1/users",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    json={
        "email": "alice@example.test",
        "password": "correct horse battery staple",
        "name": "Alice Lee",
    },
    timeout=30,
)
response.raise_for_status()
print(response.json())
