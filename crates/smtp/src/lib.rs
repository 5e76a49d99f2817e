//! SMTP without sockets: sessions in, replies out.
