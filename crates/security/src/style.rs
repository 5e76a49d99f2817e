//! What inline styles do to text, as far as they hide it.

/// Differences of a colour's channels that people do not see.
const NEAR: u8 = 12;
/// Pixels beyond the edge of a page from which a text is never seen.
const FAR: f32 = -999.0;
/// The size of text, in pixels, that people cannot read.
const TINY: f32 = 1.0;
/// Pixels of the usual letter, for sizes relative to it.
const LETTER: f32 = 16.0;
/// Values that may be a colour are shorter.
const LONGEST_COLOR: usize = 100;

type Rgb = [u8; 3];

const WHITE: Rgb = [255; 3];
/// Usual colour of links (HTML, section 15.3.10).
const LINK_BLUE: Rgb = [0, 0, 238];

/// What is behind a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Backdrop {
    /// The page, which is white in almost all programs.
    #[default]
    Page,
    Color(Rgb),
    /// A picture.
    Unknown,
}

/// How an element's text looks. Elements inside start with the same look.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TextLook {
    /// Nothing inside can be seen, whatever its own style.
    is_gone: bool,
    is_invisible: bool,
    is_tiny: bool,
    has_flat_lines: bool,
    is_outside: bool,
    is_transparent: bool,
    /// `None` for the usual black.
    color: Option<Rgb>,
    backdrop: Backdrop,
}

impl TextLook {
    /// Returns whether people cannot see the text.
    pub(crate) fn hides(&self) -> bool {
        let backdrop = match self.backdrop {
            Backdrop::Page => Some(WHITE),
            Backdrop::Color(color) => Some(color),
            Backdrop::Unknown => None,
        };
        let is_near = |(one, other): (Rgb, Rgb)| one.iter().zip(other).all(|(a, b)| a.abs_diff(b) <= NEAR);
        let is_flag = self.is_gone || self.is_invisible || self.is_tiny || self.has_flat_lines || self.is_outside;
        is_flag || self.is_transparent || self.color.zip(backdrop).is_some_and(is_near)
    }

    /// Notes that nothing inside is shown.
    pub(crate) fn hide(&mut self) {
        self.is_gone = true;
    }

    /// Notes that the text is that of a link.
    pub(crate) fn be_link(&mut self) {
        self.color = Some(LINK_BLUE);
    }

    /// Sets the colour of text.
    pub(crate) fn set_color(&mut self, value: &str) {
        match Paint::of(value) {
            Some(Paint::Transparent) => self.is_transparent = true,
            Some(Paint::Color(color)) => (self.color, self.is_transparent) = (Some(color), false),
            None => {}
        }
    }

    /// Sets what is behind the text: a colour, or a picture.
    pub(crate) fn set_background(&mut self, value: &str) {
        if value.contains("url(") || value.contains("gradient") {
            return self.set_picture();
        }
        let function = value.find('(').and_then(|open| {
            let start = value[..open].rfind(' ').map_or(0, |at| at + 1);
            value[open..].find(')').and_then(|end| value.get(start..=open + end))
        });
        let words = value.split(' ').filter(|_| function.is_none());
        if let Some(Paint::Color(color)) = function.into_iter().chain(words).find_map(Paint::of) {
            self.backdrop = Backdrop::Color(color);
        }
    }

    /// Notes a picture behind the text, whose colours are not known.
    pub(crate) fn set_picture(&mut self) {
        self.backdrop = Backdrop::Unknown;
    }

    /// Applies a `style` attribute.
    pub(crate) fn apply(&mut self, style: &str) {
        let style = unescaped(&without_comments(style)).to_ascii_lowercase();
        let mut place = Place::default();
        for (name, value) in style.split(';').filter_map(|one| one.split_once(':')) {
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let value = value.trim_end_matches("!important").trim_end();
            self.declare(name.trim(), value);
            place.declare(name.trim(), value);
        }
        self.is_gone |= place.hides();
    }

    fn declare(&mut self, name: &str, value: &str) {
        match name {
            "display" => self.is_gone |= value == "none",
            "visibility" => self.is_invisible = matches!(value, "hidden" | "collapse"),
            "mso-hide" => self.is_gone |= value == "all",
            "opacity" => self.is_gone |= length(value).is_some_and(|(number, _)| number < 0.05),
            "color" => self.set_color(value),
            "background" | "background-color" | "background-image" => self.set_background(value),
            "font-size" => self.set_size(value),
            "font" => {
                let is_size =
                    |word: &&str| length(word).is_some_and(|(number, unit)| !unit.is_empty() || number == 0.0);
                value.split([' ', '/']).find(is_size).into_iter().for_each(|size| self.set_size(size));
            }
            "line-height" => self.has_flat_lines = length(value).is_some_and(|(number, _)| number == 0.0),
            "text-indent" => self.is_outside = pixels(value).is_some_and(|pixels| pixels <= FAR),
            "clip" => self.is_gone |= clips(value, "rect(", 2.0),
            "clip-path" => self.is_gone |= clips(value, "circle(0", 0.0) || insets(value),
            "transform" => self.is_gone |= clips(value, "scale(", 0.0),
            _ => {}
        }
    }

    fn set_size(&mut self, value: &str) {
        match length(value) {
            Some((number, "em" | "rem")) => self.is_tiny |= number * LETTER <= TINY,
            Some((number, "%")) => self.is_tiny |= number / 100.0 * LETTER <= TINY,
            Some((number, _)) => self.is_tiny = number <= TINY,
            // Names of sizes, but for what comes from the element around.
            None => self.is_tiny &= matches!(value, "inherit" | "unset" | "smaller" | "larger"),
        }
    }
}

/// Where an element is, which several declarations say together.
#[derive(Debug, Default)]
struct Place {
    is_positioned: bool,
    is_far: bool,
    is_shifted: bool,
    is_flat: bool,
    hides_rest: bool,
    is_closed: bool,
}

impl Place {
    fn declare(&mut self, name: &str, value: &str) {
        let is_far = || pixels(value).is_some_and(|pixels| pixels <= FAR);
        let is_nothing = || length(value).is_some_and(|(number, unit)| number <= 1.0 && unit != "%" && unit != "em");
        match name {
            "position" => self.is_positioned = matches!(value, "absolute" | "fixed" | "relative"),
            "left" | "top" | "right" | "bottom" => self.is_far |= is_far(),
            "margin-left" | "margin-top" => self.is_shifted |= is_far(),
            "height" | "width" => self.is_flat |= is_nothing(),
            "max-height" | "max-width" => {
                self.is_closed |= length(value).is_some_and(|(number, _)| number == 0.0);
            }
            "overflow" | "overflow-x" | "overflow-y" => self.hides_rest |= matches!(value, "hidden" | "clip"),
            _ => {}
        }
    }

    fn hides(&self) -> bool {
        self.is_closed || self.is_shifted || (self.is_positioned && self.is_far) || (self.is_flat && self.hides_rest)
    }
}

/// What a colour paints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Paint {
    Transparent,
    Color(Rgb),
}

impl Paint {
    fn of(value: &str) -> Option<Self> {
        let value = value.trim();
        if value.is_empty() || value.len() > LONGEST_COLOR {
            return None;
        }
        let [red, green, blue, alpha] = csscolorparser::parse(value).ok()?.to_rgba8();
        Some(if alpha < 26 { Self::Transparent } else { Self::Color([red, green, blue]) })
    }
}

fn without_comments(style: &str) -> String {
    let mut kept = String::with_capacity(style.len());
    let mut rest = style;
    while let Some((before, after)) = rest.split_once("/*") {
        kept.push_str(before);
        rest = after.split_once("*/").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// Decodes the notation of characters by their numbers (CSS Syntax, section 4.3.7).
fn unescaped(style: &str) -> String {
    let mut pieces = style.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.bytes().take(6).take_while(u8::is_ascii_hexdigit).count();
        let (number, rest) = piece.split_at(digits);
        plain.extend(u32::from_str_radix(number, 16).ok().and_then(char::from_u32));
        plain.push_str(if digits > 0 { rest.strip_prefix(' ').unwrap_or(rest) } else { rest });
    }
    plain
}

/// Returns a number and its unit.
fn length(value: &str) -> Option<(f32, &str)> {
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+');
    let end = value.find(|c: char| !is_number(c)).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    Some((number.parse().ok()?, unit.split(' ').next().unwrap_or_default()))
}

/// Returns a length in pixels, about.
fn pixels(value: &str) -> Option<f32> {
    length(value).map(|(number, unit)| if matches!(unit, "em" | "rem") { number * LETTER } else { number })
}

/// Returns whether all arguments of a function are at most a number.
fn clips(value: &str, function: &str, most: f32) -> bool {
    let Some((_, rest)) = value.split_once(function) else { return false };
    let arguments = rest.split(')').next().unwrap_or_default();
    arguments.split([' ', ',']).filter(|one| !one.is_empty()).all(|one| length(one).is_some_and(|(n, _)| n <= most))
}

/// Returns whether half and more of an element is cut off at each side.
fn insets(value: &str) -> bool {
    let Some((_, rest)) = value.split_once("inset(") else { return false };
    length(rest.split(')').next().unwrap_or_default()).is_some_and(|(number, unit)| unit == "%" && number >= 50.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn hides(styles: &[&str]) -> bool {
        let mut look = TextLook::default();
        styles.iter().for_each(|style| look.apply(style));
        look.hides()
    }

    #[test]
    fn styles_that_hide_text_are_found() {
        for style in [
            "DISPLAY : none",
            "display:/* */none !important",
            "d\\69splay:n\\00006f ne",
            "displa\\y:none",
            "visibility: hidden",
            "opacity:.0",
            "font-size:0",
            "font-size: 1px",
            "font-size:0.05em",
            "font: 0/0 a",
            "font: bold 1px/1px Arial",
            "line-height:0px",
            "color:transparent",
            "color: rgba(1, 2, 3, 0)",
            "color:#FFF;background-color:white",
            "background:rgb(250, 250, 250) none;color:#fefefe",
            "color:hsl(0, 0%, 100%)",
            "color:#fff",
            "text-indent:-9999px",
            "text-indent:-999em",
            "position:absolute;left:-5000px",
            "top:-1000px;position:fixed",
            "margin-left:-9999px",
            "height:0;overflow:hidden",
            "width:0px;overflow:hidden",
            "max-height:0",
            "clip:rect(0 0 0 0)",
            "clip: rect(1px, 1px, 1px, 1px)",
            "clip-path:inset(100%)",
            "clip-path: circle(0)",
            "transform:scale(0)",
        ] {
            assert!(hides(&[style]), "{style}");
        }
    }

    #[test]
    fn styles_of_honest_text_hide_nothing() {
        for style in [
            "",
            ";:;",
            "color:#fff;background:#333",
            "background:url(a.png);color:white",
            "background:linear-gradient(#000,#111);color:#000",
            "color:#000",
            "color:inherit",
            "font-size:0.8em",
            "font:700 12px Arial",
            "line-height:1",
            "left:-5000px",
            "position:relative;left:-50px",
            "height:0",
            "width:1px",
            "width:100%;overflow:hidden",
            "max-height:none",
            "text-indent:-1em",
            "clip:auto",
            "clip:rect(0,100px,100px,0)",
            "clip-path:inset(10%)",
            "transform:scale(1)",
            "opacity:0.8",
        ] {
            assert!(!hides(&[style]), "{style}");
        }
    }

    #[test]
    fn elements_inside_may_be_shown_again() {
        assert!(!hides(&["font-size:0;line-height:0", "font-size:13px;line-height:1.5"]));
        assert!(!hides(&["visibility:hidden", "visibility:visible"]));
        assert!(!hides(&["color:#fff", "background:#123"]));
        assert!(!hides(&["background:#123", "color:#fff"]));
        assert!(!hides(&["text-indent:-9999px", "text-indent:0"]));
        assert!(hides(&["font-size:0", "font-size:2em"]));
        assert!(hides(&["display:none", "display:block"]));
        assert!(hides(&["background:#123", "color:#112233"]));
        assert!(hides(&["background:#123", "background:transparent;color:#123"]));
    }

    proptest! {
        #[test]
        fn any_style_is_read(style in "(color|background|font|font-size|clip|:|;|\\(|\\)|/\\*|rgb|from|inset|#fff|-|[0-9.]{1,3}|px|%| |,|\\PC){0,40}") {
            let _ = hides(&[&style]);
        }
    }
}
