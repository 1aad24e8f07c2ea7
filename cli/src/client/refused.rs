//! What a replica's answer means when it is not the one asked for: a refusal, or a reason to ask another replica.

use std::error::Error as _;

use prost::Message as _;
use proto::v1::Refusal;
use scheduler_core::command::Code;
use tonic::{Code as Grpc, Status};

use crate::codes;
use crate::failure::Failure;

/// What to do after an answer that is an error.
#[derive(Debug)]
pub enum Answer {
    /// It is final.
    Refused(Failure),
    /// Another replica, or the same one later, may do it; with the words for `-v`.
    Again(String),
}

/// Judges an error.
pub fn judge(status: &Status) -> Answer {
    if let Some(refusal) = refusal(status) {
        // Nothing was done, or nothing is known to be done, and the same request is never done twice.
        let is_for_now = status.metadata().contains_key("retry-after-ms");
        if is_for_now || refusal.code == u32::from(Code::NoLeader.number()) {
            return Answer::Again(refusal.what);
        }
        let code = u16::try_from(refusal.code).unwrap_or(codes::PROTOCOL);
        return Answer::Refused(Failure::new(code, refusal.what).why(refusal.why).fix(refusal.fix));
    }
    let said = status.message();
    // What the transport made up, and no replica said, has its cause inside.
    let is_from_transport = status.source().is_some();
    match status.code() {
        Grpc::Unavailable
        | Grpc::DeadlineExceeded
        | Grpc::Cancelled
        | Grpc::Aborted
        | Grpc::ResourceExhausted => Answer::Again(format!("{}: {said}", status.code())),
        Grpc::Unknown | Grpc::Internal if is_from_transport => Answer::Again(said.into()),
        Grpc::Unauthenticated => Answer::Refused(
            Failure::new(codes::BAD_TOKEN, "the token opens nothing here")
                .why(said)
                .fix("check BURSAR_TOKEN, BURSAR_TOKEN_FILE or the context; an operator makes new ones"),
        ),
        Grpc::PermissionDenied => Answer::Refused(Failure::new(1401, said)),
        Grpc::NotFound => Answer::Refused(Failure::new(1402, said)),
        Grpc::InvalidArgument | Grpc::OutOfRange => Answer::Refused(Failure::new(1201, said)),
        Grpc::AlreadyExists => Answer::Refused(Failure::new(1403, said)),
        Grpc::FailedPrecondition => Answer::Refused(Failure::new(1503, said)),
        Grpc::Ok | Grpc::Unknown | Grpc::Internal | Grpc::Unimplemented | Grpc::DataLoss => Answer::Refused(
            Failure::new(codes::PROTOCOL, "the replica answered with an error of its own")
                .why(format!("{}: {said}", status.code()))
                .fix("bursar version, bursar cluster status: are client and replicas of one version?"),
        ),
    }
}

/// Returns what a replica that belongs to no control plane yet answers to anything but a greeting.
pub fn waiting() -> Status {
    let refusal = Refusal {
        code: u32::from(Code::Founding.number()),
        what: "the control plane is not founded yet".into(),
        why: String::new(),
        fix: "bursar cluster init".into(),
    };
    Status::with_details(Grpc::FailedPrecondition, refusal.what.clone(), refusal.encode_to_vec().into())
}

fn refusal(status: &Status) -> Option<Refusal> {
    if status.details().is_empty() {
        return None;
    }
    Refusal::decode(status.details()).ok().filter(|refusal| refusal.code != 0)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;
    use proto::v1::Refusal;
    use tonic::{Code as Grpc, Status};

    use super::{Answer, judge};
    use crate::exit::Exit;

    #[test]
    fn a_refusal_keeps_its_code_and_words() {
        let refusal = Refusal { code: 1301, what: "no budget `x`".into(), why: "w".into(), fix: "f".into() };
        let status = Status::with_details(Grpc::InvalidArgument, "m", refusal.encode_to_vec().into());
        let Answer::Refused(failure) = judge(&status) else { panic!("a refusal is final") };
        assert_eq!(
            (failure.code, failure.what.as_str(), failure.exit),
            (1301, "no budget `x`", Exit::Refused)
        );
        assert_eq!((failure.why.as_str(), failure.fix.as_str()), ("w", "f"));
    }

    #[test]
    fn what_another_replica_may_do_is_tried_there() {
        for code in [Grpc::Unavailable, Grpc::DeadlineExceeded, Grpc::Cancelled, Grpc::ResourceExhausted] {
            assert!(matches!(judge(&Status::new(code, "m")), Answer::Again(_)), "{code:?}");
        }
        for (code, exit) in [
            (Grpc::Unauthenticated, Exit::NotAllowed),
            (Grpc::NotFound, Exit::NotFound),
            (Grpc::Internal, Exit::Other),
        ] {
            let Answer::Refused(failure) = judge(&Status::new(code, "m")) else {
                panic!("{code:?} is final")
            };
            assert_eq!(failure.exit, exit, "{code:?}");
        }
    }
}
