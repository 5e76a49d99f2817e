//! The contract suite on a real Postfix and Dovecot that read the account database, on both engines.

mod fixture;

mod on_sqlite {
    use mailapi_testkit::TestEngine;

    use crate::fixture::ExternalFixture;

    async fn fixture() -> ExternalFixture {
        ExternalFixture::open(TestEngine::Sqlite).await
    }

    mailapi_backend::backend_contract!(fixture);
}

mod on_postgresql {
    use mailapi_testkit::TestEngine;

    use crate::fixture::ExternalFixture;

    async fn fixture() -> ExternalFixture {
        ExternalFixture::open(TestEngine::Postgres).await
    }

    mailapi_backend::backend_contract!(fixture);
}
