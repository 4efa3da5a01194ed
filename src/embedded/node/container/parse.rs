//! From the text of a script to its syntax tree.

use super::syntax::{Command, Item, Kind, Link, NotUnderstood, Piece, Pipeline, Redirect, Script, Target, Word};

/// How deeply a script may be nested.
const DEPTH: usize = 64;

/// Words that end or begin a compound command where a command is expected.
const RESERVED: &[&str] =
    &["if", "then", "elif", "else", "fi", "while", "until", "for", "do", "done", "case", "esac", "{", "}", "!", "select", "[["];

/// Reads a whole script.
pub(super) fn parse(text: &str) -> Result<Script, NotUnderstood> {
    let mut parser = Parser { chars: text.chars().collect(), at: 0, depth: 0 };
    let script = parser.script(&[])?;
    parser.blanks();
    match parser.peek() {
        None => Ok(script),
        Some(c) => Err(NotUnderstood::Unexpected(c.to_string())),
    }
}

pub(super) struct Parser {
    pub(super) chars: Vec<char>,
    pub(super) at: usize,
    depth: usize,
}

pub(super) type Parsed<T> = Result<T, NotUnderstood>;

impl Parser {
    pub(super) fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    pub(super) fn ahead(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(i, c)| self.chars.get(self.at + i) == Some(&c))
    }

    pub(super) fn take(&mut self, text: &str) -> bool {
        let found = self.ahead(text);
        if found {
            self.at += text.chars().count();
        }
        found
    }

    /// Skips blanks, continued lines and comments, but not newlines.
    fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.chars.get(self.at + 1) == Some(&'\n') => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    fn separators(&mut self) {
        loop {
            self.blanks();
            if self.peek() == Some('\n') {
                self.at += 1;
            } else {
                return;
            }
        }
    }

    /// The bare word at this place, without taking it.
    fn bare(&self) -> String {
        self.chars[self.at..].iter().take_while(|c| !" \t\r\n;&|()<>\"'$`\\".contains(**c)).collect()
    }

    fn keyword(&mut self, word: &'static str) -> Parsed<()> {
        self.separators();
        if self.bare() == word {
            self.at += word.len();
            return Ok(());
        }
        match self.peek() {
            None => Err(NotUnderstood::Unfinished("a compound command")),
            Some(_) => Err(NotUnderstood::Unexpected(self.bare())),
        }
    }

    /// Commands up to one of `ends` (reserved words or `)`), which is not taken, or to the end of the text.
    pub(super) fn script(&mut self, ends: &[&str]) -> Parsed<Script> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(NotUnderstood::TooDeep);
        }
        let mut items = Vec::new();
        loop {
            self.separators();
            let ended = match self.peek() {
                None => true,
                Some(')') => ends.contains(&")"),
                Some(_) => ends.contains(&self.bare().as_str()),
            };
            if ended {
                break;
            }
            let mut item = self.item()?;
            self.blanks();
            match self.peek() {
                Some('&') => {
                    self.at += 1;
                    item.background = true;
                }
                Some(';') if !self.ahead(";;") => self.at += 1,
                Some('\n') | None => {}
                Some(')') if ends.contains(&")") => {}
                Some(c) => return Err(NotUnderstood::Unexpected(c.to_string())),
            }
            items.push(item);
        }
        self.depth -= 1;
        Ok(Script { items })
    }

    fn item(&mut self) -> Parsed<Item> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let link = if self.take("&&") {
                Link::And
            } else if self.take("||") {
                Link::Or
            } else {
                return Ok(Item { first, rest, background: false });
            };
            self.separators();
            rest.push((link, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        self.blanks();
        let negated = self.bare() == "!";
        if negated {
            self.at += 1;
        }
        let mut commands = vec![self.command()?];
        loop {
            self.blanks();
            if self.ahead("||") || !self.take("|") {
                return Ok(Pipeline { negated, commands });
            }
            self.separators();
            commands.push(self.command()?);
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        self.blanks();
        if self.take("(") {
            let script = self.script(&[")"])?;
            self.close(")")?;
            return self.with_redirects(Kind::Subshell(script));
        }
        let kind = match self.bare().as_str() {
            "{" => {
                self.at += 1;
                let script = self.script(&["}"])?;
                self.keyword("}")?;
                Kind::Group(script)
            }
            "if" => self.conditional()?,
            word @ ("while" | "until") => {
                self.at += word.len();
                let condition = self.script(&["do"])?;
                let body = self.body()?;
                Kind::Loop { condition, until: word == "until", body }
            }
            "for" => self.for_loop()?,
            "[[" => return self.simple(),
            word if RESERVED.contains(&word) => return Err(NotUnderstood::Unexpected(word.to_owned())),
            _ => return self.simple(),
        };
        self.with_redirects(kind)
    }

    pub(super) fn close(&mut self, sign: &'static str) -> Parsed<()> {
        self.separators();
        if self.take(sign) { Ok(()) } else { Err(NotUnderstood::Unfinished("brackets")) }
    }

    fn conditional(&mut self) -> Parsed<Kind> {
        self.at += 2;
        let mut arms = Vec::new();
        loop {
            let condition = self.script(&["then"])?;
            self.keyword("then")?;
            let body = self.script(&["elif", "else", "fi"])?;
            arms.push((condition, body));
            self.separators();
            match self.bare().as_str() {
                "elif" => self.at += 4,
                "else" => {
                    self.at += 4;
                    let otherwise = self.script(&["fi"])?;
                    self.keyword("fi")?;
                    return Ok(Kind::If { arms, otherwise: Some(otherwise) });
                }
                "fi" => {
                    self.at += 2;
                    return Ok(Kind::If { arms, otherwise: None });
                }
                _ => return Err(NotUnderstood::Unfinished("`if`")),
            }
        }
    }

    fn body(&mut self) -> Parsed<Script> {
        self.keyword("do")?;
        let body = self.script(&["done"])?;
        self.keyword("done")?;
        Ok(body)
    }

    fn for_loop(&mut self) -> Parsed<Kind> {
        self.at += 3;
        self.blanks();
        let variable = self.bare();
        if !is_name(&variable) {
            return Err(NotUnderstood::Unexpected(format!("for {variable}")));
        }
        self.at += variable.len();
        self.keyword("in")?;
        let mut words = Vec::new();
        loop {
            self.blanks();
            match self.peek() {
                Some(';' | '\n') => {
                    self.at += 1;
                    break;
                }
                None => return Err(NotUnderstood::Unfinished("`for`")),
                Some(_) => words.push(self.word()?),
            }
        }
        Ok(Kind::For { variable, words, body: self.body()? })
    }

    fn with_redirects(&mut self, kind: Kind) -> Parsed<Command> {
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            match self.redirect()? {
                Some(mut more) => redirects.append(&mut more),
                None => return Ok(Command { kind, redirects }),
            }
        }
    }

    fn simple(&mut self) -> Parsed<Command> {
        let mut assignments = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            if let Some(mut more) = self.redirect()? {
                redirects.append(&mut more);
                continue;
            }
            match self.peek() {
                None | Some('\n' | ';' | '|' | ')') => break,
                // Inside `[[ … ]]` the signs && and || belong to the command: not supported.
                Some('&') => break,
                Some('(') => {
                    let name = match (words.len(), words.first().and_then(plain)) {
                        (1, Some(name)) if is_name(&name) && assignments.is_empty() => name,
                        _ => return Err(NotUnderstood::Unexpected("(".to_owned())),
                    };
                    self.at += 1;
                    self.blanks();
                    if !self.take(")") {
                        return Err(NotUnderstood::Unexpected("(".to_owned()));
                    }
                    self.separators();
                    let body = Box::new(self.command()?);
                    return Ok(Command { kind: Kind::Function { name, body }, redirects });
                }
                Some(_) => {}
            }
            let bare = self.bare();
            let assigned = bare.split_once('=').filter(|(name, _)| words.is_empty() && is_name(name)).map(|(name, _)| name.to_owned());
            if let Some(name) = assigned {
                self.at += name.len() + 1;
                let value = match self.peek() {
                    None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | ')') => Word::default(),
                    Some('(') => return Err(NotUnderstood::Unexpected("an array".to_owned())),
                    Some(_) => self.word()?,
                };
                assignments.push((name, value));
            } else {
                words.push(self.word()?);
            }
        }
        if assignments.is_empty() && words.is_empty() && redirects.is_empty() {
            return match self.peek() {
                None => Err(NotUnderstood::Unfinished("a command")),
                Some(c) => Err(NotUnderstood::Unexpected(c.to_string())),
            };
        }
        Ok(Command { kind: Kind::Simple { assignments, words }, redirects })
    }

    /// One redirection at this place (`&>` makes two), or nothing.
    fn redirect(&mut self) -> Parsed<Option<Vec<Redirect>>> {
        let start = self.at;
        if self.ahead("&>") {
            self.at += 2;
            let append = self.take(">");
            self.blanks();
            let file = self.word()?;
            return Ok(Some(vec![
                Redirect { descriptor: 1, target: Target::Write { file, append } },
                Redirect { descriptor: 2, target: Target::Duplicate(1) },
            ]));
        }
        let digit = self.peek().and_then(|c| c.to_digit(10)).and_then(|d| u8::try_from(d).ok());
        let sign = if digit.is_some() { self.chars.get(self.at + 1) } else { self.chars.get(self.at) };
        if !matches!(sign, Some('<' | '>')) {
            return Ok(None);
        }
        self.at += usize::from(digit.is_some());
        if self.take("<") {
            if self.peek() == Some('<') || self.peek() == Some('(') {
                self.at = start;
                return Err(NotUnderstood::Unexpected("<<".to_owned()));
            }
            self.blanks();
            let target = Target::Read(self.word()?);
            return Ok(Some(vec![Redirect { descriptor: digit.unwrap_or(0), target }]));
        }
        self.at += 1;
        let append = self.take(">");
        if !append && self.take("&") {
            let to = self.peek().and_then(|c| c.to_digit(10)).and_then(|d| u8::try_from(d).ok());
            let to = to.ok_or_else(|| NotUnderstood::Unexpected(">&".to_owned()))?;
            self.at += 1;
            return Ok(Some(vec![Redirect { descriptor: digit.unwrap_or(1), target: Target::Duplicate(to) }]));
        }
        self.blanks();
        let target = Target::Write { file: self.word()?, append };
        Ok(Some(vec![Redirect { descriptor: digit.unwrap_or(1), target }]))
    }
}

/// The text of a word without expansions or quotes.
fn plain(word: &Word) -> Option<String> {
    match word.pieces.as_slice() {
        [Piece::Text { text, quoted: false }] => Some(text.clone()),
        _ => None,
    }
}

/// True for what may name a variable.
pub(super) fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn scripts_of_lab_pods_are_understood() {
        for script in [
            "export; trap 'exit 0' TERM; sleep 9999 & wait",
            "while true; do echo \"$(date) still here\"; sleep 5; done",
            "echo a && echo b || echo c # comment\n\necho d",
            "if [ -n \"$GPU\" ]; then echo yes; elif false; then :; else echo no; fi",
            "for i in 1 2 3; do echo $i; done | sort -r",
            "X=1 Y='a b' env | grep -i gpu > /dev/null 2>&1",
            "f() { echo $1; }; f x",
            "i=0; while [ $i -lt 3 ]; do i=$((i+1)); done; exit $i",
            "(echo sub; exit 3) || echo ${?} ${X:-none} ${#X}",
            "trap : TERM INT; sleep infinity & wait $!",
        ] {
            assert!(parse(script).is_ok(), "{script}: {:?}", parse(script));
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (script, said) in [
            ("case x in y) ;; esac", "`case` is not understood here"),
            ("echo 'open", "the script ends in the middle of quotes"),
            ("if true; then echo", "the script ends in the middle of `if`"),
            ("cat <<EOF\nx\nEOF", "`<<` is not understood here"),
            ("a=(1 2)", "`an array` is not understood here"),
            ("; echo", "`;` is not understood here"),
        ] {
            assert_eq!(parse(script).map(|_| ()).map_err(|e| e.to_string()), Err(said.to_owned()), "{script}");
        }
        assert!(parse(&"(".repeat(100_000)).is_err());
    }
}
