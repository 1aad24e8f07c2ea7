//! The one place where refusals become gRPC statuses. The refusal itself travels in the details.

use std::time::Duration;

use prost::Message as _;
use proto::Wire as _;
use scheduler_core::command::{Code, Rejection};
use tonic::metadata::MetadataValue;
use tonic::{Code as Grpc, Status};

/// Metadata that says after how many milliseconds to try again.
pub const RETRY_AFTER: &str = "retry-after-ms";

/// Returns the status of a refusal.
#[must_use]
pub fn status(rejection: &Rejection) -> Status {
    let details = rejection.to_wire().encode_to_vec();
    Status::with_details(grpc(rejection.code), rejection.what.clone(), details.into())
}

/// Returns the gRPC code of a refusal's code.
fn grpc(code: Code) -> Grpc {
    match code {
        Code::BadSpec
        | Code::AboveCap
        | Code::AboveTimeLimit
        | Code::NoTier
        | Code::InnerBudget
        | Code::OverWhole
        | Code::BadTree => Grpc::InvalidArgument,
        Code::UnknownBudget | Code::NotFound | Code::NoLog => Grpc::NotFound,
        Code::NotAllowed => Grpc::PermissionDenied,
        Code::NotLoggedIn | Code::BadJoinToken => Grpc::Unauthenticated,
        Code::NameTaken => Grpc::AlreadyExists,
        Code::ImpossibleShape
        | Code::ClosedBudget
        | Code::NoAllocation
        | Code::Simulated
        | Code::SafeMode
        | Code::Founding
        | Code::Members => Grpc::FailedPrecondition,
        Code::Conflict | Code::Expired | Code::Stale | Code::WrongTerm => Grpc::Aborted,
        Code::Full => Grpc::ResourceExhausted,
        Code::NoLeader => Grpc::Unavailable,
        Code::Internal => Grpc::Internal,
    }
}

/// Refuses a message with a field that can't be.
pub fn bad(error: &proto::Error) -> Status {
    status(&Rejection::new(Code::BadSpec, error.to_string(), "", String::new()))
}

/// Refuses a message that lacks a field.
pub fn missing(field: &'static str) -> Status {
    bad(&proto::Error::Missing(field))
}

/// Refuses what the caller may not see.
#[must_use]
pub fn not_allowed(what: &str) -> Status {
    status(&Rejection::new(Code::NotAllowed, what.to_owned(), "", "ask an operator".to_owned()))
}

/// Says that a bound is reached: nothing was done, try again after `delay`.
#[must_use]
pub fn try_again(rejection: &Rejection, delay: Duration) -> Status {
    let mut status = status(rejection);
    let ms = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
    status.metadata_mut().insert(RETRY_AFTER, MetadataValue::from(ms));
    status
}

/// Refuses a call without a token that opens something.
#[must_use]
pub fn not_logged_in() -> Status {
    status(&Rejection::new(
        Code::NotLoggedIn,
        "no token, or one that opens nothing here".to_owned(),
        "each call names who asks by a bearer token; this one is missing, wrong or revoked",
        "bursar context list, or ask an operator for a token".to_owned(),
    ))
}

/// Says that this replica belongs to no control plane yet.
#[must_use]
pub fn waiting() -> Status {
    status(&Rejection::new(
        Code::Founding,
        "this replica belongs to no control plane yet".to_owned(),
        "it waits to found one, or to be told that it is part of one",
        "bursar cluster init, on one of the replicas".to_owned(),
    ))
}

/// Says that something is not there, or not to be seen.
#[must_use]
pub fn not_found(what: String) -> Status {
    status(&Rejection::new(Code::NotFound, what, "", String::new()))
}

/// Says that what is asked for may be in a part of the history that nobody within reach has.
#[must_use]
pub fn missing_history(what: String, why: String) -> Status {
    let fix =
        "bursar cluster status: a replica that is away may have it; `bursar doctor` says what is damaged";
    status(&Rejection { code: Code::NotFound, what, why, fix: fix.to_owned() })
}

/// Says that no leader was there in time.
#[must_use]
pub fn no_leader() -> Status {
    let rejection = Rejection::new(
        Code::NoLeader,
        "no leader answered in time".to_owned(),
        "an election is going on, or a majority of the replicas is away; work that runs goes on",
        "repeat it: the same request is never done twice".to_owned(),
    );
    try_again(&rejection, Duration::from_millis(500))
}

/// Says that a replica answered what the request does not ask for.
#[must_use]
pub fn strange_answer() -> Status {
    status(&Rejection::new(
        Code::Internal,
        "the control plane answered something else than was asked".to_owned(),
        "its replicas may run versions that do not go together",
        "see whether it was done; tell an operator".to_owned(),
    ))
}
