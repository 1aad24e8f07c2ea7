//! Who may ask: added, listed, revoked.

use proto::v1;
use scheduler_core::command::{AddPrincipal, Command};
use scheduler_core::id::TokenHash;
use scheduler_core::principal::{AccountName, Actor};
use tonic::{Request, Status};

use super::name;
use crate::refusal;
use crate::shared::{self, Shared};
use crate::views;
use crate::write::{mark, write};

/// Adds a principal.
pub async fn add(
    shared: &Shared,
    asked: Request<v1::AddPrincipalRequest>,
) -> Result<v1::AddPrincipalReply, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::AddPrincipalRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "add-principal", &body)?;
    let command = Command::AddPrincipal(AddPrincipal {
        name: name("name", &message.name)?,
        token: token("token_hash", &message.token_hash)?,
        account: account("account", &message.account)?,
        is_operator: message.operator,
    });
    write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    Ok(v1::AddPrincipalReply {})
}

/// Lists principals.
pub async fn list(
    shared: &Shared,
    asked: Request<v1::ListPrincipalsRequest>,
) -> Result<v1::PrincipalList, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, asked.into_inner().read.unwrap_or_default().stale).await?;
    let scene = shared.scene(&read);
    let principals = scene.state().principals.iter();
    let principals = principals.map(|(name, principal)| views::principal::view(scene, name, principal));
    Ok(v1::PrincipalList {
        schema: "principal-list/v1".to_owned(),
        as_of: scene.as_of(),
        principals: principals.collect(),
    })
}

/// Makes a principal's token worthless.
pub async fn revoke(shared: &Shared, asked: Request<v1::RevokePrincipalRequest>) -> Result<v1::Done, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let deadline = shared::deadline(&asked, shared.config.write_patience());
    let message = asked.into_inner();
    let body = v1::RevokePrincipalRequest { mark: None, ..message.clone() };
    let mark = mark(message.mark.as_ref(), "revoke-principal", &body)?;
    let command = Command::RevokePrincipal { name: name("name", &message.name)? };
    write(shared, Actor::Principal(caller.name.clone()), Some(mark), command, deadline).await?;
    Ok(v1::Done {})
}

/// Says who a token belongs to.
pub async fn who_am_i(
    shared: &Shared,
    asked: Request<v1::WhoAmIRequest>,
) -> Result<v1::PrincipalView, Status> {
    let caller = shared.admit(asked.metadata()).await?;
    let read = shared.read(&caller, true).await?;
    let scene = shared.scene(&read);
    let principal = scene.state().principals.get(&caller.name).ok_or_else(refusal::not_logged_in)?;
    Ok(views::principal::view(scene, &caller.name, principal))
}

/// Reads a token's hash.
pub(super) fn token(field: &'static str, bytes: &[u8]) -> Result<TokenHash, Status> {
    TokenHash::from_slice(bytes)
        .ok_or_else(|| refusal::bad(&proto::Error::bad(field, "it is the BLAKE3 hash of a token: 32 bytes")))
}

/// Reads a Unix account's name.
pub(super) fn account(field: &'static str, text: &str) -> Result<AccountName, Status> {
    AccountName::new(text)
        .ok_or_else(|| refusal::bad(&proto::Error::bad(field, "not the name of a Unix account")))
}
