import os

import requests

response = requests.get(
    "http://127.0.0.1:8080/api/v1/stats/delivery",
    headers={"X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"]},
    params={"group_by": "domain"},
    timeout=30,
)
response.raise_for_status()
print(response.json())
