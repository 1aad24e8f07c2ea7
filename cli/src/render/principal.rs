//! Who may do what.

use proto::v1::{PrincipalList, PrincipalView};

use super::words::block;
use crate::form::table::Table;
use crate::form::text::{cut, plain};
use crate::shell::Look;

/// Renders the principals.
pub fn principals(list: &PrincipalList, look: &Look) -> String {
    let mut table = Table::new(&["NAME", "ACCOUNT", "ROLE", "OWNS", "MEMBER OF"]);
    for one in &list.principals {
        let size = |text: String| if look.is_wide { text } else { cut(&text, 28) };
        table.row([
            size(one.name.clone()),
            size(one.account.clone()),
            role(one).to_string(),
            size(one.owns.join(", ")),
            size(one.member_of.join(", ")),
        ]);
    }
    table.render()
}

/// Renders the one who asks.
pub fn principal(one: &PrincipalView) -> String {
    let mut out = format!("{}\n\n", plain(&one.name));
    let mut row = |name: &str, text: String| out.push_str(&block(&format!("  {name}"), 15, &[text]));
    row("jobs run as", plain(&one.account));
    row("role", role(one).into());
    row("owns", listed(&one.owns));
    row("member of", listed(&one.member_of));
    out
}

fn role(one: &PrincipalView) -> &'static str {
    match (one.revoked, one.operator) {
        (true, _) => "revoked",
        (false, true) => "operator",
        (false, false) => "user",
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "-".into() } else { plain(&names.join(", ")) }
}
