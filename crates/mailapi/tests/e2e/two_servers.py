"""Mail travels from one server to another: delivered, bounced to the sender, and deferred while the other server is
stopped."""

from harness import DOMAIN, running, tell, until

FAR = "elsewhere.test"


def send(server, sender, *recipients):
    message = {"from": sender, "to": list(recipients), "subject": "over the wire", "body": {"text": "Hello."}}
    status, answer = server.call("POST", "/mail/send", message)
    assert status == 202, answer
    return f"/mail/{answer['message_id']}/status"


def recipients_by_address(server, path):
    return {recipient["email"]: recipient for recipient in server.get(path)["recipients"]}


def story(far):
    (carol,) = far.create_people("carol", domain=FAR)
    host, port = far.smtp
    settings = {
        "MAIL__EMBEDDED__HOSTNAME": "near.test",
        "MAIL__EMBEDDED__RELAY": f"{host}:{port}",
        "ADVANCED__DELIVERY__RETRY_INTERVALS": "1h",
    }
    with running(settings) as near:
        (alice,) = near.create_people("alice")

        # One recipient exists, one does not: each has its own status, and the sender gets a notice about the second.
        path = send(near, alice, carol, f"nobody@{FAR}")
        until(lambda: near.get(path)["status"] == "partial", "the message never arrived")
        found = recipients_by_address(near, path)
        assert found[carol]["status"] == "sent" and found[carol]["delivered_at"], found
        bounced = found[f"nobody@{FAR}"]
        assert bounced["status"] == "bounced" and bounced["dsn_code"].startswith("5.1.1"), bounced
        assert "550" in bounced["smtp_response"], bounced
        (notice,) = near.messages(alice)
        text = near.get(f"/mailbox/{alice}/messages/{notice['uid']}/raw")
        assert b"multipart/report" in text and f"nobody@{FAR}".encode() in text
        # The delivery log has the same bounce as the notice.
        near.get("/mail/delivery-log/sync")
        assert near.get("/mail/delivery-log?status=bounced")["total"] == 1

        (arrived,) = far.messages(carol)
        raw = far.get(f"/mailbox/{carol}/messages/{arrived['uid']}/raw")
        assert b"DKIM-Signature: " in raw and f"Return-Path: <{alice}>".encode() in raw
        assert raw.count(b"\r\nReceived: ") + raw.startswith(b"Received: ") >= 1

        # The far server stops: the message is deferred, and the near server still stops cleanly.
        far.stop()
        path = send(near, alice, carol)
        until(lambda: recipients_by_address(near, path)[carol]["status"] == "deferred", "the message was not deferred")
        put_off = recipients_by_address(near, path)[carol]
        assert put_off["attempts"] == 1 and near.get(path)["status"] == "submitted", put_off
        assert near.get(f"/mail/delivery-log?recipient={carol}&status=deferred")["total"] == 1
    far.start()


if __name__ == "__main__":
    assert DOMAIN != FAR
    tell(story)
