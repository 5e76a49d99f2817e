import requests

response = requests.post(
    "http://127.0.0.1:8080/api/v1/auth/login",
    json={
        "email": "alice@example.test",
        "password": "correct horse battery staple",
    },
    timeout=30,
)
response.raise_for_status()
print(response.json())
