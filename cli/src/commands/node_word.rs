//! `bursar node cordon|uncordon|undrain`: an operator's word about nodes.

use proto::v1::{NodeView, NodeWordRequest};

use crate::client::Client;
use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::text::plain;
use crate::shell::Shell;

/// Arguments of `node cordon`, `node uncordon` and `node undrain`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Their names
    #[arg(required = true, value_name = "NODE")]
    names: Vec<String>,
    /// Why; shown with the node
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// What is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// No new work.
    Cordon,
    /// New work again.
    Uncordon,
    /// No more emptying.
    Undrain,
}

/// Runs the command.
///
/// # Errors
/// When it is refused, or no replica answers.
pub async fn run(shell: &Shell, word: Word, args: Args) -> Result<Exit, Failure> {
    if word == Word::Cordon && args.reason.trim().is_empty() {
        return Err(Failure::new(codes::USAGE, "a cordon needs a reason")
            .why("the next operator has to know whether the node may be used again")
            .fix("--reason TEXT"));
    }
    let client = shell.client()?;
    for name in args.names {
        let mut view = say(&client, word, &name, &args.reason).await?;
        super::schema(&mut view.schema, "node/v1");
        shell.show(&view, std::slice::from_ref(&view.name), |_| text(word, &view))?;
    }
    Ok(Exit::Done)
}

async fn say(client: &Client, word: Word, name: &str, reason: &str) -> Result<NodeView, Failure> {
    let mark = Some(client.mark(None).await?);
    let request = NodeWordRequest { mark, name: name.into(), reason: reason.into() };
    match word {
        Word::Cordon => client.cordon_node(request).await,
        Word::Uncordon => client.uncordon_node(request).await,
        Word::Undrain => client.undrain_node(request).await,
    }
}

fn text(word: Word, node: &NodeView) -> String {
    let then = match (word, node.cordon_reason.is_some()) {
        (Word::Cordon, _) => "no new work comes; what runs there stays",
        // A drained node that was cordoned too stays closed.
        (Word::Undrain, true) => "it is still cordoned, so no new work comes: bursar node uncordon",
        (Word::Uncordon | Word::Undrain, _) if node.drain_reason.is_some() => "it is still being drained",
        (Word::Uncordon | Word::Undrain, _) => "new work may come",
    };
    format!("{} is {}: {then}\n", plain(&node.name), plain(&node.state))
}

#[cfg(test)]
mod tests {
    use proto::v1::NodeView;

    use super::{Word, text};

    #[test]
    fn a_word_says_whether_new_work_comes() {
        let node = |state: &str, cordon: Option<&str>| NodeView {
            name: "node-17".into(),
            state: state.into(),
            cordon_reason: cordon.map(Into::into),
            ..NodeView::default()
        };
        assert_eq!(
            text(Word::Cordon, &node("cordoned", Some("disk"))),
            "node-17 is cordoned: no new work comes; what runs there stays\n"
        );
        assert_eq!(text(Word::Uncordon, &node("ready", None)), "node-17 is ready: new work may come\n");
        assert!(text(Word::Undrain, &node("cordoned", Some("disk"))).contains("still cordoned"));
    }
}
