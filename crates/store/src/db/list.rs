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
    /// No condition: all rows.
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

    /// Keeps the rows whose text columns have these values; the narrowest column comes first. No value means
    /// no condition.
    ///
    /// Only the first column with a value can use an index. Without statistics, an engine might otherwise
    /// scan the messages of a whole server to find those of one mailbox.
    pub(crate) fn equal<const N: usize>(mut self, columns: [(&str, Option<Value>); N]) -> Self {
        let given = columns.into_iter().filter_map(|(column, value)| Some((column, value?)));
        for (rank, (column, value)) in given.enumerate() {
            let place = self.bind(value);
            // `|| ''` keeps the engine from using an index on this column.
            self.push(&if rank == 0 { format!("{column} = {place}") } else { format!("{column} || '' = {place}") });
        }
        self
    }

    /// Keeps the rows whose `column` is one of `values`; no rows if `values` is empty.
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

    /// Returns a query for the matching rows.
    pub(crate) fn select(self, select: &str) -> Stmt {
        Stmt::new(format!("{select} {}", self.sql)).bind_all(self.params)
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

/// How rows of one kind are listed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    /// The table.
    pub(crate) table: &'static str,
    /// The primary key, one column.
    pub(crate) key: &'static str,
    /// A total order that an index provides, such as `created_at DESC, id DESC`.
    pub(crate) order: &'static str,
    /// The columns read from each row.
    pub(crate) columns: &'static str,
}

impl List {
    /// Returns one page and the total, both from one snapshot.
    pub(crate) async fn page<T>(
        self,
        db: &Db,
        filter: Filter,
        page: Page,
        read: impl Fn(Row) -> Result<T, StoreError>,
    ) -> Result<Listed<T>, StoreError> {
        let statements = vec![self.total(&filter), self.items(&filter, page)];
        listed(db.scan(statements).await?, read)
    }

    /// Like [`List::page`], for a page near the beginning and a total that needs no count.
    pub(crate) async fn short_page<T>(
        self,
        db: &Db,
        total: Stmt,
        filter: Filter,
        page: Page,
        read: impl Fn(Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Listed<T>, StoreError> {
        let read_total = |mut row: Row<'_>| row.unsigned();
        let (total, items) = db.read_both((total, read_total), (self.first_items(filter, page), read)).await?;
        Ok(Listed { total: super::exactly_one(total)?, items })
    }

    /// Returns a query for the number of rows.
    pub(crate) fn total(self, filter: &Filter) -> Stmt {
        let sql = format!("SELECT COUNT(*) FROM {} {}", self.table, filter.sql);
        Stmt::new(sql).bind_all(filter.params.iter().cloned())
    }

    /// Returns a query for the keys of the page's rows. An index alone answers it, so that skipped rows are
    /// not read.
    pub(crate) fn page_keys(self, filter: &Filter, page: Page) -> Stmt {
        let Self { table, key, order, .. } = self;
        let (limit, offset) = (filter.params.len() + 1, filter.params.len() + 2);
        let sql = format!("SELECT {key} FROM {table} {} ORDER BY {order} LIMIT ${limit} OFFSET ${offset}", filter.sql);
        let params = filter.params.iter().cloned();
        Stmt::new(sql).bind_all(params).bind(i64::from(page.limit())).bind(number(page.offset()))
    }

    /// Returns a query for a page near the beginning. It walks the ordering index once; for few rows this
    /// costs less than collecting keys and sorting.
    pub(crate) fn first_items(self, filter: Filter, page: Page) -> Stmt {
        let Self { table, order, columns, .. } = self;
        let (limit, offset) = (filter.params.len() + 1, filter.params.len() + 2);
        let Filter { sql, params } = filter;
        let sql = format!("SELECT {columns} FROM {table} {sql} ORDER BY {order} LIMIT ${limit} OFFSET ${offset}");
        Stmt::new(sql).bind_all(params).bind(i64::from(page.limit())).bind(number(page.offset()))
    }

    fn items(self, filter: &Filter, page: Page) -> Stmt {
        let Self { table, key, order, columns } = self;
        let (places, params) = self.page_keys(filter, page).into_parts();
        let sql = format!("SELECT {columns} FROM {table} WHERE {key} IN ({places}) ORDER BY {order}");
        Stmt::new(sql).bind_all(params)
    }
}

/// Reads the results of the total's query and the page's query.
fn listed<T>(answers: Vec<Vec<Row>>, read: impl Fn(Row) -> Result<T, StoreError>) -> Result<Listed<T>, StoreError> {
    let mut answers = answers.into_iter();
    let mut total = super::exactly_one(answers.next().unwrap_or_default())?;
    let items = answers.next().unwrap_or_default().into_iter().map(read).collect::<Result<_, _>>()?;
    Ok(Listed { total: total.unsigned()?, items })
}
