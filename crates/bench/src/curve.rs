//! Line charts as SVG. They consist of lines and text only, so that a text diff shows changes.

use std::fmt::Write as _;

use crate::outcome::Outcome;

/// The size of the picture and the margins of the plot, in SVG units.
const WIDTH: f64 = 820.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 260.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 56.0;
/// The height of a line in the legend.
const LEGEND_LINE: f64 = 18.0;
/// Colours that colour-blind readers can distinguish (Okabe and Ito, 2008).
const COLOURS: &[&str] = &["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];
/// The approximate number of marks on an even axis.
const MARKS: f64 = 6.0;

/// The scaling of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Linear from 0.
    Even,
    /// Logarithmic; all values must be above 0.
    Tenfolds,
}

/// A line of the chart.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The points from left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Debug, Clone)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) across: (String, Axis),
    pub(crate) up: (String, Axis),
    pub(crate) series: Vec<Series>,
}

/// Maps values to positions.
struct Scale {
    axis: Axis,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Scale {
    /// A scale from `start` to `end` that includes all values.
    fn around(values: impl Iterator<Item = f64> + Clone, axis: Axis, start: f64, end: f64) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = match axis {
            _ if !least.is_finite() => (1.0, 10.0),
            Axis::Even => {
                let step = even_step(most);
                (0.0, (most / step).ceil().max(1.0) * step)
            }
            Axis::Tenfolds => {
                let low = 10_f64.powf(least.log10().floor());
                (low, 10_f64.powf(most.log10().ceil()).max(low * 10.0))
            }
        };
        Self { axis, low, high, start, end }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.axis {
            Axis::Even => (value - self.low) / (self.high - self.low),
            Axis::Tenfolds => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        self.start + part * (self.end - self.start)
    }

    fn marks(&self) -> Vec<f64> {
        let mut marks = vec![self.low];
        let step = even_step(self.high);
        while let Some(last) = marks.last().copied()
            && last < self.high * 0.999
        {
            marks.push(match self.axis {
                Axis::Even => last + step,
                Axis::Tenfolds => last * 10.0,
            });
        }
        marks
    }
}

/// The step of an even axis up to `high`: 1, 2 or 5 times a power of ten, for a handful of marks.
fn even_step(high: f64) -> f64 {
    if high <= 0.0 {
        return 1.0;
    }
    let tenfold = 10_f64.powf((high / MARKS).log10().floor());
    [1.0, 2.0, 5.0, 10.0].map(|step| step * tenfold).into_iter().find(|step| high / step <= MARKS).unwrap_or(high)
}

impl Chart {
    /// Renders the chart.
    pub(crate) fn svg(&self) -> Outcome<String> {
        let all = || self.series.iter().flat_map(|series| series.points.iter());
        let across = Scale::around(all().map(|point| point.0), self.across.1, LEFT, WIDTH - RIGHT);
        let up = Scale::around(all().map(|point| point.1), self.up.1, HEIGHT - BOTTOM, TOP);
        let mut svg = String::new();
        writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">"#
        )?;
        writeln!(svg, r#"<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>"#)?;
        text(&mut svg, (LEFT, 24.0), r#"font-size="15""#, &self.title)?;
        self.frame(&mut svg, &across, &up)?;
        for (number, series) in self.series.iter().enumerate() {
            line(&mut svg, series, number, &across, &up)?;
        }
        svg.push_str("</svg>\n");
        Ok(svg)
    }

    fn frame(&self, svg: &mut String, across: &Scale, up: &Scale) -> Outcome {
        for mark in up.marks() {
            let y = up.place(mark);
            writeln!(svg, r##"<path d="M{LEFT} {y:.1}H{:.1}" stroke="#ddd"/>"##, WIDTH - RIGHT)?;
            text(svg, (LEFT - 6.0, y + 4.0), r#"text-anchor="end""#, &short(mark))?;
        }
        for mark in across.marks() {
            let x = across.place(mark);
            let below = HEIGHT - BOTTOM;
            writeln!(svg, r##"<path d="M{x:.1} {below:.1}v5" stroke="#888"/>"##)?;
            text(svg, (x, below + 18.0), r#"text-anchor="middle""#, &short(mark))?;
        }
        let middle = (LEFT + WIDTH - RIGHT) / 2.0;
        text(svg, (middle, HEIGHT - 14.0), r#"text-anchor="middle""#, &self.across.0)?;
        let turned = format!(r#"text-anchor="middle" transform="rotate(-90 16 {:.1})""#, HEIGHT / 2.0);
        text(svg, (16.0, HEIGHT / 2.0), &turned, &self.up.0)
    }
}

fn line(svg: &mut String, series: &Series, number: usize, across: &Scale, up: &Scale) -> Outcome {
    let colour = COLOURS[number % COLOURS.len()];
    // With more lines than colours, the colours repeat as dashed lines.
    let dashes = if number < COLOURS.len() { "" } else { r#" stroke-dasharray="6 4""# };
    let places = series.points.iter().map(|(x, y)| (across.place(*x), up.place(*y)));
    let path: Vec<String> = places.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    writeln!(svg, r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>"#, path.join(" "))?;
    // Many dots would overlap.
    if series.points.len() <= 20 {
        for (x, y) in places {
            writeln!(svg, r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#)?;
        }
    }
    let y = TOP + 10.0 + LEGEND_LINE * number as f64;
    let x = WIDTH - RIGHT + 14.0;
    writeln!(svg, r#"<path d="M{x} {:.1}h16" stroke="{colour}" stroke-width="3"{dashes}/>"#, y - 4.0)?;
    text(svg, (x + 22.0, y), "", &series.name)
}

fn text(svg: &mut String, (x, y): (f64, f64), attributes: &str, words: &str) -> Outcome {
    // The other special characters of XML are harmless in text.
    let words = words.replace('&', "&amp;").replace('<', "&lt;");
    Ok(writeln!(svg, r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{words}</text>"#)?)
}

/// Formats a number on an axis.
fn short(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e3 => format!("{} k", value / 1e3),
        _ if value >= 1.0 || value == 0.0 => format!("{}", (value * 100.0).round() / 100.0),
        _ => format!("{}", (value * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_a_handful_of_round_marks() {
        let even = Scale::around([3.0, 41.0].into_iter(), Axis::Even, 0.0, 100.0);
        assert_eq!(even.marks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        let tenfolds = Scale::around([1_000.0, 1_000_000.0].into_iter(), Axis::Tenfolds, 0.0, 90.0);
        assert_eq!(tenfolds.marks(), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(tenfolds.place(1e4).round(), 30.0);
    }

    #[test]
    fn a_curve_of_one_value_or_of_none_is_drawn_all_the_same() {
        for points in [vec![(5.0, 0.2)], Vec::new(), vec![(1.0, 1.0), (2.0, 1.0)]] {
            let series = vec![Series { name: "a < b".to_owned(), points }];
            for axis in [Axis::Even, Axis::Tenfolds] {
                let (across, up) = (("x".to_owned(), axis), ("y".to_owned(), axis));
                let svg = Chart { title: "t & u".to_owned(), across, up, series: series.clone() }.svg().unwrap();
                assert!(svg.contains("a &lt; b") && svg.contains("t &amp; u") && !svg.contains("NaN"), "{svg}");
            }
        }
    }

    #[test]
    fn numbers_on_an_axis_are_short() {
        assert_eq!([0.0, 0.05, 2.5, 20_000.0, 1e7].map(short), ["0", "0.05", "2.5", "20 k", "10 M"]);
    }
}
