curl http://127.0.0.1:8080/api/v1/mail/send \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN" \
  -H "Idempotency-Key: minutes-2026-11-20" \
  -H "Content-Type: application/json" \
  -d '{
    "from": "Alice Lee <alice@example.test>",
    "to": ["bob@example.test"],
    "subject": "Meeting minutes",
    "body": {"text": "See attached.", "html": "<p>See attached.</p>"},
    "attachments": [
      {
        "filename": "minutes.txt",
        "content": "SGVsbG8h",
        "content_type": "text/plain"
      }
    ]
  }'
