curl "http://127.0.0.1:8080/api/v1/stats/delivery?group_by=domain" \
  -H "X-MAILAPI-TOKEN: $MAILAPI_TOKEN"
