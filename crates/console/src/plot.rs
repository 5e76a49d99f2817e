//! Plots, drawn as SVG by the server. Each page shows the same figures as a table.
//!
//! Colours differ in lightness and not only in hue, and parts have gaps, so that colour-blind people tell them apart.

use askama::Template;

/// A drawing.
#[derive(Template, Default)]
#[template(path = "plot.svg", escape = "html")]
pub(crate) struct Plot {
    /// What the plot shows, for people who do not see it.
    title: String,
    width: u64,
    height: u64,
    bars: Vec<Bar>,
    texts: Vec<Text>,
    lines: Vec<Line>,
    paths: Vec<Path>,
}

struct Bar {
    x: u64,
    y: u64,
    width: u64,
    height: u64,
    /// The radius of its corners.
    round: u64,
    class: &'static str,
    about: String,
}

struct Text {
    x: u64,
    y: u64,
    anchor: &'static str,
    text: String,
}

/// A horizontal line.
struct Line {
    x: u64,
    until: u64,
    y: u64,
    class: &'static str,
}

struct Path {
    class: &'static str,
    points: String,
}

/// The counts of a day, an hour, or a name.
pub(crate) struct Column {
    /// The name of the column.
    pub(crate) label: String,
    /// The class of the style and the name of each part, with its count.
    pub(crate) parts: Vec<(&'static str, &'static str, u64)>,
}

/// Two values of a day or an hour; none without data.
pub(crate) struct Point {
    pub(crate) label: String,
    pub(crate) values: Option<[u64; 2]>,
}

impl Plot {
    /// The height of the tallest column.
    const HEIGHT: u64 = 120;
    /// The place of the baseline.
    const BASE: u64 = 136;
    const LEFT: u64 = 52;
    /// Minimum width, that of a week: a few columns would have large letters otherwise.
    const LEAST_WIDTH: u64 = 416;
    /// Room for the names of rows.
    const NAMES: u64 = 190;
    const ROW: u64 = 26;
    /// Maximum number of names below the columns.
    const LABELS: usize = 8;

    /// Stacked columns from left to right.
    pub(crate) fn columns(title: impl Into<String>, columns: &[Column]) -> Self {
        let largest = largest(columns);
        let mut plot = Self::with_axis(title.into(), columns.len(), &largest.to_string(), "0");
        let step = step(columns.len());
        for (place, column) in (0_u64..).zip(columns) {
            let mut y = Self::BASE;
            for &(class, name, count) in column.parts.iter().filter(|(_, _, count)| *count > 0) {
                let height = scaled(count, largest, Self::HEIGHT);
                y = y.saturating_sub(height);
                let about = format!("{}: {count} {name}", column.label);
                let (x, width) = (Self::LEFT + place * step, step - step / 4);
                plot.bars.push(Bar { x, y, width, height, round: 1, class, about });
            }
        }
        plot.label(columns.iter().map(|column| column.label.as_str()));
        plot
    }

    /// Stacked rows, each with its name and its sum; `shown` writes a count.
    pub(crate) fn rows(title: impl Into<String>, rows: &[Column], shown: fn(u64) -> String) -> Self {
        const LENGTH: u64 = 300;
        let largest = largest(rows);
        let mut plot = Self { title: title.into(), width: Self::NAMES + LENGTH + 90, ..Self::default() };
        for (place, row) in (0_u64..).zip(rows) {
            let (mut x, y) = (Self::NAMES, 4 + place * Self::ROW);
            plot.write(Self::NAMES - 8, y + 13, "end", shortened(&row.label));
            for &(class, name, count) in row.parts.iter().filter(|(_, _, count)| *count > 0) {
                let width = scaled(count, largest, LENGTH);
                let about = format!("{}: {} {name}", row.label, shown(count));
                plot.bars.push(Bar { x, y, width, height: Self::ROW - 8, round: 1, class, about });
                x += width;
            }
            plot.write(x + 6, y + 13, "start", shown(sum(row)));
        }
        plot.height = 4 + rows.len() as u64 * Self::ROW;
        plot
    }

    /// Two lines on a logarithmic scale from 1: round marks on a full line, square ones on a dashed line.
    pub(crate) fn lines(title: impl Into<String>, points: &[Point], shown: fn(u64) -> String) -> Self {
        let values = points.iter().filter_map(|point| point.values);
        let largest = values.flatten().max().unwrap_or(0).max(10);
        let mut plot = Self::with_axis(title.into(), points.len(), &shown(largest), &shown(1));
        let step = step(points.len());
        for (series, class) in ["fast", "slow"].into_iter().enumerate() {
            let mut drawn = String::new();
            for (place, point) in (0_u64..).zip(points) {
                let Some(value) = point.values.map(|values| values[series]) else { continue };
                let (x, y) = (Self::LEFT + place * step + step / 2, Self::BASE - logarithmic(value, largest));
                drawn.push_str(&format!("{x},{y} "));
                let about = format!("{}: {}", point.label, shown(value));
                let round = if series == 0 { 4 } else { 0 };
                plot.bars.push(Bar { x: x - 3, y: y - 3, width: 7, height: 7, round, class, about });
            }
            plot.paths.push(Path { class, points: drawn });
        }
        plot.label(points.iter().map(|point| point.label.as_str()));
        plot
    }

    fn with_axis(title: String, columns: usize, top: &str, bottom: &str) -> Self {
        let width = (Self::LEFT + columns as u64 * step(columns) + 12).max(Self::LEAST_WIDTH);
        let mut plot = Self { title, width, height: Self::BASE + 24, ..Self::default() };
        plot.write(Self::LEFT - 6, 22, "end", top.to_owned());
        plot.write(Self::LEFT - 6, Self::BASE + 4, "end", bottom.to_owned());
        let line = |y, class| Line { x: Self::LEFT, until: width, y, class };
        plot.lines.push(line(Self::BASE - Self::HEIGHT, "grid"));
        plot.lines.push(line(Self::BASE, "axis-line"));
        plot
    }

    /// Writes names below the columns, without some if there are many.
    fn label<'a>(&mut self, labels: impl ExactSizeIterator<Item = &'a str>) {
        let count = labels.len();
        let (step, every) = (step(count), count.div_ceil(Self::LABELS).max(1));
        for (place, label) in (0_u64..).zip(labels).step_by(every) {
            self.write(Self::LEFT + place * step + step / 2, Self::BASE + 17, "middle", label.to_owned());
        }
    }

    /// The width on a page. All plots have one scale, so that their letters have one size.
    const fn shown_width(&self) -> u64 {
        self.width * 6 / 5
    }

    fn write(&mut self, x: u64, y: u64, anchor: &'static str, text: String) {
        self.texts.push(Text { x, y, anchor, text });
    }
}

/// The distance of columns.
const fn step(columns: usize) -> u64 {
    match columns {
        0..=10 => 44,
        11..=31 => 22,
        _ => 9,
    }
}

fn sum(column: &Column) -> u64 {
    column.parts.iter().fold(0, |sum, (_, _, count)| sum.saturating_add(*count))
}

fn largest(columns: &[Column]) -> u64 {
    columns.iter().map(sum).max().unwrap_or(0)
}

/// The length of a part. Every part stays visible, however small.
fn scaled(count: u64, largest: u64, length: u64) -> u64 {
    let scaled = (u128::from(count) * u128::from(length)).div_ceil(u128::from(largest.max(1)));
    u64::try_from(scaled).unwrap_or(length).clamp(2, length)
}

/// The height of a value on the logarithmic scale.
fn logarithmic(value: u64, largest: u64) -> u64 {
    /// Digits and their parts: enough for the pixels of a plot, without floating-point numbers.
    fn tenths(value: u64) -> u64 {
        let digits = u64::from(value.max(1).ilog10());
        let power = 10_u64.saturating_pow(u32::try_from(digits).unwrap_or(0));
        // The first digit in tenths of a decade: the logarithms of 1 to 9.
        const PARTS: [u64; 9] = [0, 30, 48, 60, 70, 78, 85, 90, 95];
        digits * 100 + PARTS[usize::try_from(value.max(1) / power).unwrap_or(1).clamp(1, 9) - 1]
    }
    (tenths(value) * Plot::HEIGHT / tenths(largest).max(1)).min(Plot::HEIGHT)
}

/// A name that fits before its row.
fn shortened(text: &str) -> String {
    const MOST: usize = 28;
    if text.chars().count() <= MOST {
        return text.to_owned();
    }
    text.chars().take(MOST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column(parts: &[u64]) -> Column {
        Column { label: "20".to_owned(), parts: parts.iter().map(|count| ("sent", "delivered", *count)).collect() }
    }

    #[test]
    fn the_tallest_column_fits_and_the_smallest_part_is_seen() {
        let plot = Plot::columns("Mail", &[column(&[1_000_000, 1]), column(&[]), column(&[u64::MAX / 4])]);
        assert_eq!(plot.bars.len(), 3, "no bar for nothing");
        assert!(plot.bars.iter().all(|bar| bar.height >= 2 && bar.y + bar.height <= Plot::BASE));
        assert!(Plot::columns("Nothing", &[]).render().unwrap().contains("<svg"));
    }

    #[test]
    fn a_scale_of_decades_grows_with_the_value() {
        let heights: Vec<_> = [1, 5, 10, 99, 1000, 100_000].map(|value| logarithmic(value, 100_000)).into();
        assert!(heights.is_sorted() && heights[0] == 0 && heights[5] == Plot::HEIGHT, "{heights:?}");
    }

    proptest! {
        #[test]
        fn any_counts_are_drawn_within_the_plot(counts: Vec<Vec<u64>>) {
            let columns: Vec<_> = counts.iter().map(|parts| column(parts)).collect();
            for plot in [Plot::columns("x", &columns), Plot::rows("x", &columns, |count| count.to_string())] {
                prop_assert!(plot.bars.iter().all(|bar| bar.width >= 2 && bar.height >= 2));
                prop_assert!(plot.bars.iter().all(|bar| bar.y <= plot.height));
            }
            let point = |parts: &Vec<u64>| Point {
                label: String::new(),
                values: parts.first().map(|first| [*first, parts[parts.len() - 1]]),
            };
            let points: Vec<_> = counts.iter().map(point).collect();
            let plot = Plot::lines("x", &points, |count| count.to_string());
            prop_assert!(plot.bars.iter().all(|bar| bar.y + bar.height <= plot.height));
        }
    }
}
