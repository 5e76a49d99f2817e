//! Makes the HTML of a mail harmless.
//!
//! This is the first of three walls. The second is a frame without scripts, the third its policy, which loads nothing
//! from elsewhere.

use std::collections::HashSet;

use ammonia::{Builder, UrlRelative};

use crate::effort::is_small;

/// Maximum size of HTML to show. Larger mail is shown as text.
const MAX_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of links to list.
const MAX_LINKS: usize = 100;

/// HTML that runs nothing and loads nothing; `None` if it is too large to parse.
pub(crate) fn clean(html: &str) -> Option<String> {
    if html.len() > MAX_BYTES || !is_small(html) {
        return None;
    }
    let schemes = HashSet::from(["http", "https", "mailto"]);
    let mut builder = Builder::default();
    builder
        .url_schemes(schemes)
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow"))
        // Images would tell the sender that the mail was read. Their texts stay.
        .attribute_filter(|element, attribute, value| {
            let loads = matches!((element, attribute), ("img", "src") | (_, "cite" | "background" | "longdesc"));
            (!loads).then(|| value.into())
        });
    Some(builder.clean(html).to_string())
}

/// The addresses that links of cleaned HTML lead to, each once.
pub(crate) fn links(cleaned: &str) -> Vec<String> {
    let mut links: Vec<String> = Vec::new();
    for (place, found) in cleaned.match_indices("<a href=\"") {
        let rest = &cleaned[place + found.len()..];
        let link = rest[..rest.find('"').unwrap_or(0)].replace("&amp;", "&");
        if !link.is_empty() && !links.contains(&link) && links.len() < MAX_LINKS {
            links.push(link);
        }
    }
    links
}

/// The host of an address, to show before the rest.
pub(crate) fn host(link: &str) -> &str {
    let rest = link.split_once("://").map_or(link, |(_, rest)| rest);
    let authority = &rest[..rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())];
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Mail that tries to run or load something.
    const HOSTILE: &[&str] = &[
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<svg onload=alert(1)><script>alert(1)</script></svg>",
        "<svg><style><img src=x onerror=alert(1)></style></svg>",
        "<math><mtext><table><mglyph><style><!--</style><img title=\"--&gt;&lt;img src=1 onerror=alert(1)&gt;\">",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<a href=\"  java\nscript:alert(1)\">x</a>",
        "<a href=\"data:text/html,<script>alert(1)</script>\">x</a>",
        "<a href=\"vbscript:msgbox(1)\">x</a>",
        "<iframe src=\"https://evil.example\"></iframe>",
        "<iframe srcdoc=\"<script>alert(1)</script>\"></iframe>",
        "<object data=\"https://evil.example/x.swf\"></object><embed src=\"https://evil.example/x\">",
        "<form action=\"https://evil.example\"><input name=password><button formaction=javascript:alert(1)>x</button></form>",
        "<meta http-equiv=\"refresh\" content=\"0;url=https://evil.example\">",
        "<base href=\"https://evil.example/\">",
        "<link rel=stylesheet href=\"https://evil.example/x.css\">",
        "<style>@import 'https://evil.example/x.css'; body { background: url(https://evil.example/y) }</style>",
        "<div style=\"background: url(https://evil.example/z)\">x</div>",
        "<table background=\"https://evil.example/t\"><tr><td>x</td></tr></table>",
        "<img src=\"https://evil.example/pixel.gif\" srcset=\"https://evil.example/2x 2x\" alt=\"hello\">",
        "<img src=\"cid:part1@example\"><img src=\"data:image/svg+xml,<svg onload=alert(1)>\">",
        "<video src=\"https://evil.example/v\" poster=\"https://evil.example/p\"></video><audio src=x onerror=alert(1)>",
        "<input type=image src=https://evil.example/i>",
        "<body onload=alert(1) background=\"https://evil.example/b\">",
        "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\"></noscript>",
        "<template><script>alert(1)</script></template>",
        "<xmp><script>alert(1)</script></xmp><plaintext><script>alert(1)</script>",
        "<blockquote cite=\"https://evil.example/c\">x</blockquote>",
        "<details open ontoggle=alert(1)>x</details>",
        "<x onclick=alert(1) id=getElementById name=body>x</x>",
        "<<script>alert(1)//<</script>",
        "<scr\0ipt>alert(1)</scr\0ipt>",
        "<img \"\"\"><script>alert(1)</script>\">",
        "<a href=\"//evil.example/relative\">x</a><a href=\"/console/logout\">y</a>",
    ];

    #[test]
    fn nothing_of_a_hostile_mail_runs_or_loads() {
        for html in HOSTILE {
            let cleaned = clean(html).unwrap().to_ascii_lowercase();
            let in_tags = cleaned.split('<').skip(1).filter_map(|part| part.split('>').next());
            for tag in in_tags {
                // Without values: a harmless title may contain any text.
                let names: String = tag.split('"').step_by(2).collect();
                let element = names.split([' ', '/']).next().unwrap_or_default();
                assert!(!ELEMENTS.contains(&element), "{html} became {cleaned}, with {element}");
                let is_event = |name: &str| name.starts_with("on");
                let attributes = names.split(' ').skip(1).map(|name| name.trim_end_matches('='));
                for name in attributes {
                    assert!(!ATTRIBUTES.contains(&name) && !is_event(name), "{html} became {cleaned}, with {name}");
                }
                let target = tag.split("href=\"").nth(1).unwrap_or("https:");
                let is_known = ["http:", "https:", "mailto:"].iter().any(|scheme| target.starts_with(scheme));
                assert!(is_known, "{html} became {cleaned}, with {target}");
            }
        }
    }

    /// Elements that run, load or send something.
    const ELEMENTS: &[&str] = &[
        "script",
        "svg",
        "math",
        "iframe",
        "object",
        "embed",
        "form",
        "input",
        "button",
        "meta",
        "base",
        "link",
        "style",
        "video",
        "audio",
        "template",
        "noscript",
        "body",
        "plaintext",
        "xmp",
        "x",
    ];
    const ATTRIBUTES: &[&str] =
        &["style", "src", "srcset", "background", "cite", "id", "name", "formaction", "action", "data", "poster"];

    #[test]
    fn ordinary_mail_stays_readable() {
        let html = "<html><body><p>Dear <b>Ann</b>,<br>see <a href=\"https://a.example/x?a=1&amp;b=2\">this</a>\
                    <table><tr><td>1<td>2</table><img src=\"https://a.example/i.png\" alt=\"A picture\">";
        let cleaned = clean(html).unwrap();
        for kept in ["<b>Ann</b>", "<td>1</td>", "alt=\"A picture\"", "rel=\"noopener noreferrer nofollow\">this</a>"] {
            assert!(cleaned.contains(kept), "{cleaned}");
        }
        assert_eq!(links(&cleaned), ["https://a.example/x?a=1&b=2"]);
        let long_list = "<ul>".to_owned() + &"<li>x<p>y".repeat(5000);
        assert!(clean(&long_list).is_some(), "elements without an end are not nested");
    }

    #[test]
    fn the_host_is_the_one_that_the_browser_would_open() {
        assert_eq!(host("https://bank.example@evil.example/x"), "evil.example");
        assert_eq!(host("https://evil.example?bank.example/"), "evil.example");
        assert_eq!(host("http://evil.example\\@bank.example"), "evil.example");
        assert_eq!(host("mailto:ann@a.example"), "a.example");
    }

    #[test]
    fn deep_and_huge_mail_is_refused_before_it_is_parsed() {
        let hidden = "<style><p a=\"</style>".to_owned() + &"<div>".repeat(300);
        let repeated = "<p>".to_owned() + &"<b title=x><i>".repeat(100) + &"<p>x".repeat(3000);
        for large in ["<div>".repeat(300), hidden, repeated, "x".repeat(MAX_BYTES + 1)] {
            assert!(clean(&large).is_none(), "{}", &large[..60]);
        }
        let newsletter = "<style>p { margin: 0 }</style>".to_owned() + &"<div><b>x</b></div>".repeat(5000);
        assert!(clean(&newsletter).is_some());
    }

    proptest! {
        #[test]
        fn any_text_is_cleaned_or_refused(html in "(<[/!]?(div|b|p|!--|script|a href=\"x|svg)[ >]?|-->|[<>\"'/=a-z ]){0,60}") {
            if let Some(cleaned) = clean(&html) {
                prop_assert!(!cleaned.contains("<script") && !cleaned.contains("<svg"));
                for link in links(&cleaned) {
                    let _ = host(&link);
                }
            }
        }
    }
}
