curl http://127.0.0.1:8080/api/v1/auth/login \
  -H "Content-Type: application/json" \
  -d '{
    "email": "alice@example.test",
    "password": "correct horse battery staple"
  }'
