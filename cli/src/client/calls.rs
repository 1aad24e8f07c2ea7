//! The calls, by what they mean.

use proto::v1::{self, RequestMark};
use tonic::{Code, Status, Streaming};

use super::refused::{self, Answer};
use super::replicas::Control;
use super::retry::Client;
use crate::clock::Deadline;
use crate::codes;
use crate::failure::Failure;

/// The code of a log that is not there.
const NO_LOG: u16 = scheduler_core::command::Code::NoLog.number();

/// Defines a call per line: its name, request and answer, by how it is asked. The same message goes out on each retry.
macro_rules! calls {
    ($ask:ident: $($(#[$doc:meta])* $name:ident($request:ident) -> $answer:ident;)*) => {
        impl Client {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// When it is refused, or no replica answers.
                pub async fn $name(&self, request: v1::$request) -> Result<v1::$answer, Failure> {
                    self.need_token()?;
                    self.$ask(async |mut control| control.$name(request.clone()).await).await
                }
            )*
        }
    };
}

calls! {
    ask:
    /// Submits a job.
    submit(SubmitRequest) -> SubmitReply;
    /// Ends a job.
    cancel(CancelRequest) -> CancelReply;
    /// Judges and plans a submission without making it.
    plan_job(PlanJobRequest) -> PlanJobReply;
    /// Keeps a waiting job from being tried.
    hold_job(JobWordRequest) -> JobWordReply;
    /// Puts a held job back in line.
    release_job(JobWordRequest) -> JobWordReply;
    /// Stops a job's attempt, and starts it again later.
    requeue_job(JobWordRequest) -> JobWordReply;
    /// Reads a job.
    show_job(ShowJobRequest) -> JobView;
    /// Reads jobs.
    list_jobs(ListJobsRequest) -> JobList;
    /// Reads the line.
    queue(QueueRequest) -> QueueView;
    /// Asks why.
    explain(ExplainRequest) -> Explanation;
    /// Reads the budgets.
    budget_tree(BudgetTreeRequest) -> BudgetTreeView;
    /// Compares a tree with the present one.
    budget_plan(BudgetPlanRequest) -> BudgetPlanReply;
    /// Makes a tree the present one.
    budget_apply(BudgetApplyRequest) -> BudgetApplyReply;
    /// Takes an edit back whose time has not come.
    cancel_budget_edit(CancelBudgetEditRequest) -> Done;
    /// Says how long jobs waited.
    waits(WaitsRequest) -> WaitsView;
    /// Asks what would become of a waiting job if something were another.
    what_if(WhatIfRequest) -> WhatIfView;
    /// Says what was owed and delivered.
    budget_usage(BudgetUsageRequest) -> BudgetUsageView;
    /// Shows one budget in full.
    show_budget(ShowBudgetRequest) -> BudgetView;
    /// Gives a budget more share for a time.
    budget_grant(BudgetGrantRequest) -> GrantView;
    /// Ends a grant early.
    end_budget_grant(EndBudgetGrantRequest) -> GrantView;
    /// Lists grants.
    budget_grants(BudgetGrantsRequest) -> GrantList;
    /// Adds a principal.
    add_principal(AddPrincipalRequest) -> AddPrincipalReply;
    /// Reads the principals.
    list_principals(ListPrincipalsRequest) -> PrincipalList;
    /// Closes a principal's token.
    revoke_principal(RevokePrincipalRequest) -> Done;
    /// Says who asks.
    who_am_i(WhoAmIRequest) -> PrincipalView;
    /// Permits a node to join.
    issue_node_token(IssueNodeTokenRequest) -> IssueNodeTokenReply;
    /// Reads the nodes.
    list_nodes(ListNodesRequest) -> NodeList;
    /// Reads a node.
    show_node(ShowNodeRequest) -> NodeView;
    /// Keeps new work from a node.
    cordon_node(NodeWordRequest) -> NodeView;
    /// Lets new work come to a node again.
    uncordon_node(NodeWordRequest) -> NodeView;
    /// Empties a node, or says what that would do.
    drain_node(DrainNodeRequest) -> DrainView;
    /// Ends the emptying of a node.
    undrain_node(NodeWordRequest) -> NodeView;
    /// Says where a node is.
    set_node(SetNodeRequest) -> NodeView;
    /// Says which clusters make up a pool, and what its types of GPU count.
    set_pool(SetPoolRequest) -> ClusterPoolList;
    /// Reads the pools.
    list_pools(ListPoolsRequest) -> ClusterPoolList;
    /// Reads what preemptions cost.
    bill(BillRequest) -> BillView;
    /// Reads what could start.
    capacity(CapacityRequest) -> CapacityView;
    /// Reads who asked what.
    audit(AuditRequest) -> AuditList;
    /// Reads the control plane.
    cluster_status(ClusterStatusRequest) -> ClusterView;
    /// Reads cluster time and everybody's clocks.
    cluster_time(ClusterTimeRequest) -> ClusterTimeView;
    /// Sets cluster time, or says what that would do.
    set_cluster_time(SetClusterTimeRequest) -> SetTimeView;
    /// Ends safe mode.
    end_safe_mode(EndSafeModeRequest) -> Done;
    /// Asks whether replicas can be spared.
    ok_to_stop(OkToStopRequest) -> OkToStopView;
}

calls! {
    ask_patiently:
    /// Hands leadership over.
    transfer_leader(TransferLeaderRequest) -> TransferLeaderReply;
    /// Lets replicas join, one step of it.
    add_members(AddMembersRequest) -> MembersView;
    /// Removes a replica, or says what that would do.
    remove_member(RemoveMemberRequest) -> RemoveMemberReply;
}

impl Client {
    /// Greets a replica; needs no token.
    ///
    /// # Errors
    /// When no replica answers.
    pub async fn hello(&self) -> Result<v1::HelloReply, Failure> {
        let reply = self.ask(async |mut control| control.hello(v1::HelloRequest {}).await).await?;
        self.learn(&reply.replicas);
        Ok(reply)
    }

    /// Greets a replica that belongs to a control plane: one that is about to join has no time to date a write with.
    async fn hello_of_member(&self) -> Result<v1::HelloReply, Failure> {
        let greet = async |mut control: Control| {
            let reply = control.hello(v1::HelloRequest {}).await?;
            if reply.get_ref().cluster.is_none() {
                return Err(refused::waiting());
            }
            // One whose machine has just restarted may not know the time yet: another one does, or will.
            if reply.get_ref().time_unknown {
                return Err(Status::unavailable("its machine restarted, and it asks what time it is"));
            }
            Ok(reply)
        };
        let reply = self.ask(greet).await?;
        self.learn(&reply.replicas);
        Ok(reply)
    }

    /// Names a write: fresh, or by the key the user gave.
    ///
    /// # Errors
    /// When no replica answers, or there is no cluster yet.
    pub async fn mark(&self, key: Option<&str>) -> Result<RequestMark, Failure> {
        self.need_token()?;
        let hello = self.hello_of_member().await?;
        let id = match key {
            Some(key) => blake3::hash(key.as_bytes()).as_bytes()[..16].to_vec(),
            None => random::<16>()?.to_vec(),
        };
        Ok(RequestMark { id, made_at: hello.cluster_time_at })
    }

    /// Reads a log, part after part, and goes on at the same place on another replica when one breaks off.
    ///
    /// # Errors
    /// When it is refused, no replica answers, or `each` fails.
    pub async fn logs(
        &self,
        mut request: v1::LogsRequest,
        mut each: impl FnMut(&v1::LogPart) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.need_token()?;
        let mut losses = Losses::new(self);
        loop {
            let mut parts = self.ask(async |mut control| control.logs(request.clone()).await).await?;
            let lost = loop {
                match parts.message().await {
                    Ok(Some(part)) => {
                        losses.forget();
                        request.attempt = Some(part.attempt);
                        request.offset = part.offset.saturating_add(length(&part.bytes));
                        each(&part)?;
                        if part.ended {
                            return Ok(());
                        }
                    }
                    Ok(None) if request.follow => break "the log broke off".to_string(),
                    Ok(None) => return Ok(()),
                    Err(status) => break again(&status, request.follow)?,
                }
            };
            losses.count(&lost).await?;
        }
    }

    /// Reads events, one after the other, and goes on behind the last one on another replica when one breaks off.
    ///
    /// # Errors
    /// When it is refused, no replica answers, or `each` fails.
    pub async fn events(
        &self,
        mut request: v1::EventsRequest,
        mut each: impl FnMut(&v1::EventView) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.need_token()?;
        // Several events may share an index: those that were seen are left out when it is read again.
        let mut seen: Option<(u64, u32)> = None;
        let mut losses = Losses::new(self);
        loop {
            let mut events: Streaming<v1::EventView> =
                self.ask(async |mut control| control.events(request.clone()).await).await?;
            let lost = loop {
                match events.message().await {
                    Ok(Some(event)) => {
                        losses.forget();
                        if seen.is_some_and(|seen| (event.index, event.n) <= seen) {
                            continue;
                        }
                        seen = Some((event.index, event.n));
                        request.after = Some(event.index.saturating_sub(1));
                        request.since_at = None;
                        each(&event)?;
                    }
                    Ok(None) if request.follow => break "the events broke off".to_string(),
                    Ok(None) => return Ok(()),
                    Err(status) => break again(&status, false)?,
                }
            };
            losses.count(&lost).await?;
        }
    }
}

/// Returns random bytes.
///
/// # Errors
/// When the system has none.
pub fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::new(codes::FILE, "the system gives no random numbers").why(error.to_string())
    })?;
    Ok(bytes)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Returns why a stream broke off, or the refusal that ended it. A log that is followed may be away for a while, as
/// its node's agent is.
fn again(status: &Status, is_log_followed: bool) -> Result<String, Failure> {
    match refused::judge(status) {
        Answer::Refused(failure) if is_log_followed && failure.code == NO_LOG => Ok(failure.what),
        // A stream that breaks off inside is a lost replica, whatever the transport calls it.
        Answer::Refused(_) if matches!(status.code(), Code::Unknown | Code::Internal) => {
            Ok(status.message().into())
        }
        Answer::Refused(failure) => Err(failure),
        Answer::Again(why) => Ok(why),
    }
}

/// Streams that break off one after the other without a word are given up after a while.
struct Losses<'a> {
    client: &'a Client,
    since: Option<Deadline>,
}

impl<'a> Losses<'a> {
    fn new(client: &'a Client) -> Self {
        Self { client, since: None }
    }

    fn forget(&mut self) {
        self.since = None;
    }

    async fn count(&mut self, why: &str) -> Result<(), Failure> {
        self.client.turn_away(why);
        let since = *self.since.get_or_insert_with(|| Deadline::after(self.client.patience()));
        if since.is_over() {
            return Err(Failure::new(codes::NO_LEADER, "every replica breaks off").why(why).fix("try again"));
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        Ok(())
    }
}
