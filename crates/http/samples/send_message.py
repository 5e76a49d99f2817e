import os

import requests

response = requests.post(
    "http://127.0.0.1:8080/api/v1/mail/send",
    headers={
        "X-MAILAPI-TOKEN": os.environ["MAILAPI_TOKEN"],
        "Idempotency-Key": "minutes-2026-11-20",
    },
    json={
        "from": "Alice Lee <alice@example.test>",
        "to": ["bob@example.test"],
        "subject": "Meeting minutes",
        "body": {
            "text": "See attached.",
            "html": "<p>See attached.</p>",
        },
        "attachments": [
            {
                "filename": "minutes.txt",
                "content": "SGVsbG8h",
                "content_type": "text/plain",
            },
        ],
    },
    timeout=30,
)
response.raise_for_status()
print(response.json())
