//! The service for people and programs: each call is in its group's file.

use proto::v1;
use proto::v1::control_server::Control;
use tonic::{Request, Response, Status};

use super::{
    Api, Replies, audit, budgets, cluster, events, grants, job_words, jobs, logs, members, node_words, nodes,
    pools, principals, reports, time,
};

#[tonic::async_trait]
impl Control for Api {
    type LogsStream = Replies<v1::LogPart>;
    type EventsStream = Replies<v1::EventView>;

    async fn hello(&self, _: Request<v1::HelloRequest>) -> Result<Response<v1::HelloReply>, Status> {
        cluster::hello(&self.shared).map(Response::new)
    }

    async fn submit(&self, asked: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitReply>, Status> {
        jobs::submit(&self.shared, asked).await.map(Response::new)
    }

    async fn cancel(&self, asked: Request<v1::CancelRequest>) -> Result<Response<v1::CancelReply>, Status> {
        jobs::cancel(&self.shared, asked).await.map(Response::new)
    }

    async fn hold_job(
        &self,
        asked: Request<v1::JobWordRequest>,
    ) -> Result<Response<v1::JobWordReply>, Status> {
        job_words::hold(&self.shared, asked).await.map(Response::new)
    }

    async fn release_job(
        &self,
        asked: Request<v1::JobWordRequest>,
    ) -> Result<Response<v1::JobWordReply>, Status> {
        job_words::release(&self.shared, asked).await.map(Response::new)
    }

    async fn requeue_job(
        &self,
        asked: Request<v1::JobWordRequest>,
    ) -> Result<Response<v1::JobWordReply>, Status> {
        job_words::requeue(&self.shared, asked).await.map(Response::new)
    }

    async fn plan_job(
        &self,
        asked: Request<v1::PlanJobRequest>,
    ) -> Result<Response<v1::PlanJobReply>, Status> {
        reports::plan_job(&self.shared, asked).await.map(Response::new)
    }

    async fn show_job(&self, asked: Request<v1::ShowJobRequest>) -> Result<Response<v1::JobView>, Status> {
        jobs::show(&self.shared, asked).await.map(Response::new)
    }

    async fn list_jobs(&self, asked: Request<v1::ListJobsRequest>) -> Result<Response<v1::JobList>, Status> {
        jobs::list(&self.shared, asked).await.map(Response::new)
    }

    async fn queue(&self, asked: Request<v1::QueueRequest>) -> Result<Response<v1::QueueView>, Status> {
        jobs::queue(&self.shared, asked).await.map(Response::new)
    }

    async fn explain(&self, asked: Request<v1::ExplainRequest>) -> Result<Response<v1::Explanation>, Status> {
        jobs::explain(&self.shared, asked).await.map(Response::new)
    }

    async fn logs(&self, asked: Request<v1::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        logs::logs(&self.shared, asked).await.map(Response::new)
    }

    async fn budget_tree(
        &self,
        asked: Request<v1::BudgetTreeRequest>,
    ) -> Result<Response<v1::BudgetTreeView>, Status> {
        budgets::tree(&self.shared, asked).await.map(Response::new)
    }

    async fn budget_plan(
        &self,
        asked: Request<v1::BudgetPlanRequest>,
    ) -> Result<Response<v1::BudgetPlanReply>, Status> {
        budgets::plan(&self.shared, asked).await.map(Response::new)
    }

    async fn budget_apply(
        &self,
        asked: Request<v1::BudgetApplyRequest>,
    ) -> Result<Response<v1::BudgetApplyReply>, Status> {
        budgets::apply(&self.shared, asked).await.map(Response::new)
    }

    async fn cancel_budget_edit(
        &self,
        asked: Request<v1::CancelBudgetEditRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        budgets::cancel_edit(&self.shared, asked).await.map(Response::new)
    }

    async fn budget_usage(
        &self,
        asked: Request<v1::BudgetUsageRequest>,
    ) -> Result<Response<v1::BudgetUsageView>, Status> {
        budgets::usage(&self.shared, asked).await.map(Response::new)
    }

    async fn show_budget(
        &self,
        asked: Request<v1::ShowBudgetRequest>,
    ) -> Result<Response<v1::BudgetView>, Status> {
        budgets::show(&self.shared, asked).await.map(Response::new)
    }

    async fn budget_grant(
        &self,
        asked: Request<v1::BudgetGrantRequest>,
    ) -> Result<Response<v1::GrantView>, Status> {
        grants::grant(&self.shared, asked).await.map(Response::new)
    }

    async fn end_budget_grant(
        &self,
        asked: Request<v1::EndBudgetGrantRequest>,
    ) -> Result<Response<v1::GrantView>, Status> {
        grants::end(&self.shared, asked).await.map(Response::new)
    }

    async fn budget_grants(
        &self,
        asked: Request<v1::BudgetGrantsRequest>,
    ) -> Result<Response<v1::GrantList>, Status> {
        grants::list(&self.shared, asked).await.map(Response::new)
    }

    async fn add_principal(
        &self,
        asked: Request<v1::AddPrincipalRequest>,
    ) -> Result<Response<v1::AddPrincipalReply>, Status> {
        principals::add(&self.shared, asked).await.map(Response::new)
    }

    async fn list_principals(
        &self,
        asked: Request<v1::ListPrincipalsRequest>,
    ) -> Result<Response<v1::PrincipalList>, Status> {
        principals::list(&self.shared, asked).await.map(Response::new)
    }

    async fn revoke_principal(
        &self,
        asked: Request<v1::RevokePrincipalRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        principals::revoke(&self.shared, asked).await.map(Response::new)
    }

    async fn who_am_i(
        &self,
        asked: Request<v1::WhoAmIRequest>,
    ) -> Result<Response<v1::PrincipalView>, Status> {
        principals::who_am_i(&self.shared, asked).await.map(Response::new)
    }

    async fn issue_node_token(
        &self,
        asked: Request<v1::IssueNodeTokenRequest>,
    ) -> Result<Response<v1::IssueNodeTokenReply>, Status> {
        nodes::issue_token(&self.shared, asked).await.map(Response::new)
    }

    async fn list_nodes(
        &self,
        asked: Request<v1::ListNodesRequest>,
    ) -> Result<Response<v1::NodeList>, Status> {
        nodes::list(&self.shared, asked).await.map(Response::new)
    }

    async fn show_node(&self, asked: Request<v1::ShowNodeRequest>) -> Result<Response<v1::NodeView>, Status> {
        nodes::show(&self.shared, asked).await.map(Response::new)
    }

    async fn cordon_node(
        &self,
        asked: Request<v1::NodeWordRequest>,
    ) -> Result<Response<v1::NodeView>, Status> {
        node_words::cordon(&self.shared, asked).await.map(Response::new)
    }

    async fn uncordon_node(
        &self,
        asked: Request<v1::NodeWordRequest>,
    ) -> Result<Response<v1::NodeView>, Status> {
        node_words::uncordon(&self.shared, asked).await.map(Response::new)
    }

    async fn drain_node(
        &self,
        asked: Request<v1::DrainNodeRequest>,
    ) -> Result<Response<v1::DrainView>, Status> {
        node_words::drain(&self.shared, asked).await.map(Response::new)
    }

    async fn set_node(&self, asked: Request<v1::SetNodeRequest>) -> Result<Response<v1::NodeView>, Status> {
        node_words::set(&self.shared, asked).await.map(Response::new)
    }

    async fn set_pool(
        &self,
        asked: Request<v1::SetPoolRequest>,
    ) -> Result<Response<v1::ClusterPoolList>, Status> {
        pools::set(&self.shared, asked).await.map(Response::new)
    }

    async fn list_pools(
        &self,
        asked: Request<v1::ListPoolsRequest>,
    ) -> Result<Response<v1::ClusterPoolList>, Status> {
        pools::list(&self.shared, asked).await.map(Response::new)
    }

    async fn undrain_node(
        &self,
        asked: Request<v1::NodeWordRequest>,
    ) -> Result<Response<v1::NodeView>, Status> {
        node_words::undrain(&self.shared, asked).await.map(Response::new)
    }

    async fn bill(&self, asked: Request<v1::BillRequest>) -> Result<Response<v1::BillView>, Status> {
        reports::bill(&self.shared, asked).await.map(Response::new)
    }

    async fn waits(&self, asked: Request<v1::WaitsRequest>) -> Result<Response<v1::WaitsView>, Status> {
        reports::waits(&self.shared, asked).await.map(Response::new)
    }

    async fn what_if(&self, asked: Request<v1::WhatIfRequest>) -> Result<Response<v1::WhatIfView>, Status> {
        reports::what_if(&self.shared, asked).await.map(Response::new)
    }

    async fn capacity(
        &self,
        asked: Request<v1::CapacityRequest>,
    ) -> Result<Response<v1::CapacityView>, Status> {
        reports::capacity(&self.shared, asked).await.map(Response::new)
    }

    async fn cluster_status(
        &self,
        asked: Request<v1::ClusterStatusRequest>,
    ) -> Result<Response<v1::ClusterView>, Status> {
        cluster::status(&self.shared, asked).await.map(Response::new)
    }

    async fn cluster_time(
        &self,
        asked: Request<v1::ClusterTimeRequest>,
    ) -> Result<Response<v1::ClusterTimeView>, Status> {
        time::show(&self.shared, asked).await.map(Response::new)
    }

    async fn set_cluster_time(
        &self,
        asked: Request<v1::SetClusterTimeRequest>,
    ) -> Result<Response<v1::SetTimeView>, Status> {
        time::set(&self.shared, asked).await.map(Response::new)
    }

    async fn end_safe_mode(
        &self,
        asked: Request<v1::EndSafeModeRequest>,
    ) -> Result<Response<v1::Done>, Status> {
        cluster::end_safe_mode(&self.shared, asked).await.map(Response::new)
    }

    async fn audit(&self, asked: Request<v1::AuditRequest>) -> Result<Response<v1::AuditList>, Status> {
        audit::audit(&self.shared, asked).await.map(Response::new)
    }

    async fn transfer_leader(
        &self,
        asked: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderReply>, Status> {
        members::transfer(&self.shared, asked).await.map(Response::new)
    }

    async fn ok_to_stop(
        &self,
        asked: Request<v1::OkToStopRequest>,
    ) -> Result<Response<v1::OkToStopView>, Status> {
        members::ok_to_stop(&self.shared, asked).await.map(Response::new)
    }

    async fn add_members(
        &self,
        asked: Request<v1::AddMembersRequest>,
    ) -> Result<Response<v1::MembersView>, Status> {
        members::add(&self.shared, asked).await.map(Response::new)
    }

    async fn remove_member(
        &self,
        asked: Request<v1::RemoveMemberRequest>,
    ) -> Result<Response<v1::RemoveMemberReply>, Status> {
        members::remove(&self.shared, asked).await.map(Response::new)
    }

    async fn events(
        &self,
        asked: Request<v1::EventsRequest>,
    ) -> Result<Response<Self::EventsStream>, Status> {
        events::events(&self.shared, asked).await.map(Response::new)
    }
}
