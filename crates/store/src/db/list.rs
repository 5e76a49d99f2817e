//! Pages of lists with their totals.

use mailapi_model::{Listed, Page};

use super::{Db, Row, Stmt, Value, number};
use crate::StoreError;

/// Conditions of a list, joined by AND.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    sql: String,
    params: Vec<Value>,
}

impl Filter {
    /// Everything.
    pub(crate) fn all() -> Self {
        Self::default()
    }

    /// Keeps the rows where `condition` holds; it has no parameters.
    pub(crate) fn only(mut self, condition: &str) -> Self {
        self.push(condition);
        self
    }

    /// Keeps the rows where `condition` holds with `?` as the value; no value means no condition.
    pub(crate) fn when(mut self, condition: &str, value: Option<impl Into<Value>>) -> Self {
        if let Some(value) = value {
            let place = self.bind(value.into());
            self.push(&condition.replace('?', &place));
        }
        self
    }

    /// Keeps the rows whose `column` is one of `values`: none of them when there are no values.
    pub(crate) fn one_of(mut self, column: &str, values: Option<Vec<Value>>) -> Self {
        match values {
            Some(values) if values.is_empty() => self.push("FALSE"),
            Some(values) => {
                let places = self.bind_list(values);
                self.push(&format!("{column} IN ({places})"));
            }
            None => {}
        }
        self
    }

    /// Keeps the rows whose `column` is none of `values`.
    pub(crate) fn none_of(mut self, column: &str, values: Vec<Value>) -> Self {
        if !values.is_empty() {
            let places = self.bind_list(values);
            self.push(&format!("{column} NOT IN ({places})"));
        }
        self
    }

    fn bind(&mut self, value: Value) -> String {
        self.params.push(value);
        format!("${}", self.params.len())
    }

    fn bind_list(&mut self, values: Vec<Value>) -> String {
        values.into_iter().map(|value| self.bind(value)).collect::<Vec<_>>().join(", ")
    }

    fn push(&mut self, condition: &str) {
        self.sql.push_str(if self.sql.is_empty() { "WHERE " } else { " AND " });
        self.sql.push_str(condition);
    }
}

/// How a kind of rows is listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    /// Where the rows are.
    pub(crate) table: &'static str,
    /// The primary key, one column.
    pub(crate) key: &'static str,
    /// A total order that an index gives, such as `created_at DESC, id DESC`.
    pub(crate) order: &'static str,
    /// What is read of each row.
    pub(crate) columns: &'static str,
}

impl List {
    /// One page and the total, both of the same state of the database.
    pub(crate) async fn page<T>(
        self,
        db: &Db,
        filter: Filter,
        page: Page,
        read: impl Fn(Row) -> Result<T, StoreError>,
    ) -> Result<Listed<T>, StoreError> {
        let (total, items) = self.statements(filter, page);
        let mut answers = db.scan(vec![total, items]).await?.into_iter();
        let mut total = super::exactly_one(answers.next().unwrap_or_default())?;
        let items = answers.next().unwrap_or_default().into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(Listed { total: total.unsigned()?, items })
    }

    /// The count, then the page. The inner query finds the page in the index alone, so that rows before the page are
    /// skipped without being read.
    pub(crate) fn statements(self, filter: Filter, page: Page) -> (Stmt, Stmt) {
        let Self { table, key, order, columns } = self;
        let Filter { sql, params } = filter;
        let total = Stmt::new(format!("SELECT COUNT(*) FROM {table} {sql}")).bind_all(params.clone());
        let (limit, offset) = (params.len() + 1, params.len() + 2);
        let items = Stmt::new(format!(
            "SELECT {columns} FROM {table} WHERE {key} IN \
             (SELECT {key} FROM {table} {sql} ORDER BY {order} LIMIT ${limit} OFFSET ${offset}) ORDER BY {order}"
        ));
        let items = items.bind_all(params).bind(i64::from(page.limit())).bind(number(page.offset()));
        (total, items)
    }
}
