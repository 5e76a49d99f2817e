//! The threads of THREAD (RFC 5256 section 3).

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;

use super::OrderFacts;
use super::subject::BaseSubject;
use crate::server::command::ThreadAlgorithm;

/// A message with its replies. Without a UID it only holds replies together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::server) struct Thread {
    pub(in crate::server) uid: Option<u32>,
    /// Positions of the replies in the list of threads.
    pub(in crate::server) replies: Vec<usize>,
}

/// Ancestors that are compared to find a loop. A longer chain is cut, or hostile headers would cost the square of their
/// number.
const MOST_ANCESTORS: usize = 1_000;

/// Comparisons with ancestors in all. Threads of people need a fraction of it; hostile headers could ask for thousands of
/// millions, and other sessions of the same thread of execution would wait.
const MOST_COMPARED: usize = 20_000_000;

/// Returns all nodes and the positions of the first messages, in order.
pub(in crate::server) fn thread(messages: &[OrderFacts], algorithm: ThreadAlgorithm) -> (Vec<Thread>, Vec<usize>) {
    match algorithm {
        ThreadAlgorithm::OrderedSubject => by_subject(messages),
        ThreadAlgorithm::References => {
            let mut forest = Forest::of(messages);
            forest.prune();
            forest.sort_roots();
            forest.gather_subjects();
            forest.sort_all();
            forest.finish()
        }
    }
}

/// ORDEREDSUBJECT: the first message of each base subject, with all others as its replies.
fn by_subject(messages: &[OrderFacts]) -> (Vec<Thread>, Vec<usize>) {
    let mut ordered: Vec<&OrderFacts> = messages.iter().collect();
    ordered.sort_by_key(|facts| (facts.sent, facts.uid));
    let (mut threads, mut roots): (Vec<Thread>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut first_of: HashMap<String, usize> = HashMap::new();
    for facts in ordered {
        let position = threads.len();
        threads.push(Thread { uid: Some(facts.uid), replies: Vec::new() });
        let first = *first_of.entry(BaseSubject::of(&facts.subject).text).or_insert(position);
        if first == position { roots.push(position) } else { threads[first].replies.push(position) }
    }
    (threads, roots)
}

/// The first messages of threads, in order, and the place of each.
#[derive(Default)]
struct Roots {
    ordered: Vec<usize>,
    places: HashMap<usize, usize>,
}

impl Roots {
    fn add(&mut self, root: usize) {
        self.places.insert(root, self.ordered.len());
        self.ordered.push(root);
    }

    /// Puts a root in the place of another one, or at the end if that has none yet.
    fn replace(&mut self, old: usize, new: usize) {
        match self.places.get(&old).copied() {
            Some(place) => {
                self.ordered[place] = new;
                self.places.insert(new, place);
            }
            None => self.add(new),
        }
    }
}

/// A message, or an id that others refer to.
#[derive(Default)]
struct Node<'a> {
    message: Option<&'a OrderFacts>,
    parent: Option<usize>,
    /// Whether it was the parent of another node.
    is_parent: bool,
    /// Filled when all parents are settled.
    children: Vec<usize>,
}

struct Forest<'a> {
    nodes: Vec<Node<'a>>,
    roots: Vec<usize>,
    /// Ancestors that may still be compared.
    left_to_compare: usize,
}

impl<'a> Forest<'a> {
    /// Links messages to their parents (step 1). A message whose id another one has gets a node of its own.
    fn of(messages: &'a [OrderFacts]) -> Self {
        let mut forest = Self { nodes: Vec::new(), roots: Vec::new(), left_to_compare: MOST_COMPARED };
        let mut nodes: HashMap<&str, usize> = HashMap::new();
        for message in messages {
            let known = message.message_id.as_deref().map(|id| forest.node_of(&mut nodes, id));
            let own = match known {
                Some(node) if forest.nodes[node].message.is_none() => node,
                _ => forest.add(),
            };
            forest.nodes[own].message = Some(message);
            let mut parent = None;
            for id in &message.references {
                let node = forest.node_of(&mut nodes, id);
                if let Some(parent) = parent.filter(|_| forest.nodes[node].parent.is_none()) {
                    forest.link(parent, node);
                }
                parent = Some(node);
            }
            // The own header is better proof than those of others.
            forest.nodes[own].parent = None;
            if let Some(parent) = parent {
                forest.link(parent, own);
            }
        }
        forest.fill_children();
        forest
    }

    /// Lists the children of each node, and the nodes without a parent. Not earlier: a message may replace its parent, and
    /// removing it from a long list each time would cost the square of their number.
    fn fill_children(&mut self) {
        for node in 0..self.nodes.len() {
            match self.nodes[node].parent {
                Some(parent) => self.nodes[parent].children.push(node),
                None => self.roots.push(node),
            }
        }
    }

    fn add(&mut self) -> usize {
        self.nodes.push(Node::default());
        self.nodes.len() - 1
    }

    fn node_of<'i>(&mut self, nodes: &mut HashMap<&'i str, usize>, id: &'i str) -> usize {
        *nodes.entry(id).or_insert_with(|| self.add())
    }

    /// Makes `child` a child, unless that would close a loop.
    fn link(&mut self, parent: usize, child: usize) {
        if parent == child || (self.nodes[child].is_parent && self.descends(parent, child)) {
            return;
        }
        self.nodes[child].parent = Some(parent);
        self.nodes[parent].is_parent = true;
    }

    /// Whether `node` is below `ancestor`, or too deep to be sure.
    fn descends(&mut self, node: usize, ancestor: usize) -> bool {
        let mut above = Some(node);
        for _ in 0..MOST_ANCESTORS.min(self.left_to_compare) {
            self.left_to_compare -= 1;
            match above {
                None => return false,
                Some(node) if node == ancestor => return true,
                Some(node) => above = self.nodes[node].parent,
            }
        }
        true
    }

    /// Removes nodes without messages, and passes their children to their parents (step 3). At the top, a node with
    /// several children stays: it holds them together.
    fn prune(&mut self) {
        for node in self.bottom_up() {
            let children = std::mem::take(&mut self.nodes[node].children);
            let kept = children.into_iter().flat_map(|child| self.kept(child)).collect();
            self.nodes[node].children = kept;
        }
        let roots = std::mem::take(&mut self.roots);
        self.roots = roots.into_iter().flat_map(|root| self.kept_root(root)).collect();
    }

    fn kept(&mut self, node: usize) -> Vec<usize> {
        if self.nodes[node].message.is_some() { vec![node] } else { std::mem::take(&mut self.nodes[node].children) }
    }

    fn kept_root(&mut self, root: usize) -> Vec<usize> {
        if self.nodes[root].children.len() > 1 { vec![root] } else { self.kept(root) }
    }

    /// All nodes, children before their parents. Without recursion: a chain can be as long as the mailbox.
    fn bottom_up(&self) -> Vec<usize> {
        let mut order = self.roots.clone();
        let mut next = 0;
        while let Some(&node) = order.get(next) {
            order.extend(&self.nodes[node].children);
            next += 1;
        }
        order.reverse();
        order
    }

    /// The date of a message, or of the first child (step 4), and the UID to settle ties.
    fn date(&self, node: usize) -> (Timestamp, u32) {
        let first = |node: usize| self.nodes[node].children.first().copied();
        let message = self.nodes[node].message.or_else(|| first(node).and_then(|child| self.nodes[child].message));
        message.map_or((Timestamp::MIN, 0), |facts| (facts.sent, facts.uid))
    }

    fn sort_children(&mut self, node: usize) {
        let mut children = std::mem::take(&mut self.nodes[node].children);
        children.sort_by_key(|&child| self.date(child));
        self.nodes[node].children = children;
    }

    fn sort_roots(&mut self) {
        for root in self.roots.clone() {
            if self.nodes[root].message.is_none() {
                self.sort_children(root);
            }
        }
        let mut roots = std::mem::take(&mut self.roots);
        roots.sort_by_key(|&root| self.date(root));
        self.roots = roots;
    }

    /// Sorts siblings at every level (step 6).
    fn sort_all(&mut self) {
        for node in self.bottom_up() {
            self.sort_children(node);
        }
        self.sort_roots();
    }

    fn subject(&self, root: usize) -> BaseSubject {
        let first = self.nodes[root].children.first().and_then(|&child| self.nodes[child].message);
        BaseSubject::of(self.nodes[root].message.or(first).map_or("", |facts| &facts.subject))
    }

    /// Joins threads with the same base subject (step 5).
    fn gather_subjects(&mut self) {
        let subjects: Vec<(usize, BaseSubject)> = self.roots.iter().map(|&root| (root, self.subject(root))).collect();
        // The best root of each subject: one without a message, or else one that is no reply, or else the first.
        let mut best: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for (root, subject) in subjects.iter().filter(|(_, subject)| !subject.text.is_empty()) {
            let (held, is_reply) = *best.entry(&subject.text).or_insert((*root, subject.is_reply));
            let is_dummy = |node: usize| self.nodes[node].message.is_none();
            if (is_dummy(*root) && !is_dummy(held)) || (!is_dummy(held) && is_reply && !subject.is_reply) {
                best.insert(&subject.text, (*root, subject.is_reply));
            }
        }
        for (root, _) in &subjects {
            self.nodes[*root].parent = None;
        }
        let mut roots = Roots::default();
        for (root, subject) in &subjects {
            // Already joined with another one.
            if self.nodes[*root].parent.is_some() {
                continue;
            }
            match best.get_mut(subject.text.as_str()) {
                Some(held) if held.0 != *root => self.merge(held, *root, subject.is_reply, &mut roots),
                _ => roots.add(*root),
            }
        }
        self.roots = roots.ordered;
    }

    /// Merges a root into the best one of its subject.
    fn merge(&mut self, best: &mut (usize, bool), root: usize, is_reply: bool, roots: &mut Roots) {
        let (held, held_is_reply) = *best;
        let is_dummy = |node: usize| self.nodes[node].message.is_none();
        if is_dummy(held) && is_dummy(root) {
            let children = std::mem::take(&mut self.nodes[root].children);
            self.nodes[held].children.extend(children);
        } else if is_dummy(held) || (is_reply && !held_is_reply) {
            self.nodes[held].children.push(root);
        } else {
            let both = self.add();
            self.nodes[both].children = vec![held, root];
            self.nodes[held].parent = Some(both);
            roots.replace(held, both);
            *best = (both, false);
        }
    }

    fn finish(self) -> (Vec<Thread>, Vec<usize>) {
        let threads = self.nodes.into_iter();
        let threads = threads.map(|node| Thread { uid: node.message.map(|facts| facts.uid), replies: node.children });
        (threads.collect(), self.roots)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn message(uid: u32, id: &str, references: &[&str], subject: &str) -> OrderFacts {
        OrderFacts {
            uid,
            sent: Timestamp::from_second(i64::from(uid)).unwrap(),
            message_id: Some(id.to_owned()),
            references: references.iter().map(|&id| id.to_owned()).collect(),
            subject: subject.to_owned(),
            ..OrderFacts::default()
        }
    }

    fn threads(messages: &[OrderFacts], algorithm: ThreadAlgorithm) -> String {
        let (threads, roots) = thread(messages, algorithm);
        let mut writer = crate::token::Writer::new();
        crate::server::encode::thread::write(&mut writer, &threads, &roots, Some);
        String::from_utf8(writer.take()).unwrap().trim_end().to_owned()
    }

    fn references(messages: &[OrderFacts]) -> String {
        threads(messages, ThreadAlgorithm::References)
    }

    #[test]
    fn replies_are_below_their_parents() {
        let (one, two) = (message(1, "a", &[], "x"), message(2, "b", &["a"], "Re: x"));
        let three = message(3, "c", &["a", "b"], "Re: x");
        assert_eq!(references(&[one.clone(), two.clone(), three.clone()]), "* THREAD (1 2 3)");
        assert_eq!(references(&[three, one, two]), "* THREAD (1 2 3)");
    }

    #[test]
    fn a_missing_parent_holds_its_replies_together() {
        let two = [message(1, "b", &["a"], "x"), message(2, "c", &["a"], "x")];
        assert_eq!(references(&two), "* THREAD ((1)(2))");
        assert_eq!(references(&two[..1]), "* THREAD (1)");
    }

    #[test]
    fn equal_subjects_are_gathered() {
        let reply = message(1, "b", &[], "Re: x");
        let (first, second) = (message(2, "a", &[], "x"), message(3, "c", &[], "[list] x"));
        assert_eq!(references(&[reply.clone(), first.clone()]), "* THREAD (2 1)");
        assert_eq!(references(&[first.clone(), second.clone()]), "* THREAD ((2)(3))");
        assert_eq!(references(&[reply, first, second]), "* THREAD ((2 1)(3))");
    }

    #[test]
    fn loops_and_equal_ids_do_no_harm() {
        let loop_of_two = [message(1, "a", &["b"], ""), message(2, "b", &["a"], "")];
        assert_eq!(references(&loop_of_two), "* THREAD (2 1)");
        assert_eq!(references(&[message(1, "a", &["a"], "")]), "* THREAD (1)");
        assert_eq!(references(&[message(1, "a", &[], ""), message(2, "a", &[], "")]), "* THREAD (1)(2)");
    }

    #[test]
    fn ordered_subject_puts_all_below_the_first() {
        let messages = [message(3, "c", &[], "x"), message(1, "a", &[], "Re: x"), message(2, "b", &[], "y")];
        assert_eq!(threads(&messages, ThreadAlgorithm::OrderedSubject), "* THREAD (1 3)(2)");
    }

    fn any_message() -> impl Strategy<Value = OrderFacts> {
        let ids = || prop::sample::select(vec!["a", "b", "c", "d", "e", "f"]);
        let subjects = prop::sample::select(vec!["", "x", "Re: x", "y", "Fwd: y"]);
        (prop::option::of(ids()), prop::collection::vec(ids(), 0..5), subjects, 0i64..4).prop_map(
            |(id, references, subject, sent)| OrderFacts {
                message_id: id.map(ToOwned::to_owned),
                references: references.into_iter().map(ToOwned::to_owned).collect(),
                subject: subject.to_owned(),
                sent: Timestamp::from_second(sent).unwrap(),
                ..OrderFacts::default()
            },
        )
    }

    proptest! {
        /// Each message is in exactly one thread, however headers refer to each other.
        #[test]
        fn each_message_is_in_one_thread(mut messages in prop::collection::vec(any_message(), 0..24)) {
            for (uid, message) in (1..).zip(&mut messages) {
                message.uid = uid;
            }
            for algorithm in [ThreadAlgorithm::References, ThreadAlgorithm::OrderedSubject] {
                let text = threads(&messages, algorithm);
                let mut uids: Vec<u32> = text.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
                uids.sort_unstable();
                prop_assert_eq!(uids, (1..=messages.len() as u32).collect::<Vec<_>>(), "{}", text);
            }
        }
    }

    fn wide(count: u32, of: impl Fn(u32) -> OrderFacts) -> usize {
        let messages: Vec<OrderFacts> = (1..=count).map(of).collect();
        let text = references(&messages);
        text.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty()).count()
    }

    /// Without bounds, each of these would take minutes.
    #[test]
    fn hostile_headers_cost_no_square_of_their_number() {
        let half = 60_000;
        let id = |number: u32| format!("id{number}");
        // The first half makes all others children of one message; these then choose another parent.
        let star = |uid: u32| match uid <= half {
            true => message(uid, &format!("x{uid}"), &["p", &id(uid + half)], ""),
            false => message(uid, &id(uid), &["q"], ""),
        };
        assert_eq!(wide(2 * half, star), 2 * half as usize);
        // Each pair of threads with one subject gets a node of its own.
        let pairs = |uid: u32| message(uid, &id(uid), &[], &format!("s{}", uid % half));
        assert_eq!(wide(2 * half, pairs), 2 * half as usize);
        // Each reference from the end of a chain to its beginning is compared with the whole chain.
        let (end, beginning) = (id(890), id(0));
        let chain = |uid: u32| match uid {
            1..900 => message(uid, &id(uid), &[&id(uid - 1)], ""),
            _ => message(uid, &id(uid), &[end.as_str(), &beginning].repeat(25), ""),
        };
        assert_eq!(wide(20_000, chain), 20_000);
    }

    #[test]
    fn a_chain_as_long_as_a_mailbox_is_threaded() {
        let id = |number: u32| format!("id{number}");
        let messages: Vec<OrderFacts> =
            (1..20_000).rev().map(|uid| message(uid, &id(uid), &[&id(uid - 1)], "")).collect();
        let text = references(&messages);
        assert!(text.starts_with("* THREAD ("), "{}", &text[..40]);
    }
}
