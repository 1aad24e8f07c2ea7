//! What people say about jobs and nodes, and what they ask about preemptions.

use proto::v1::{self, DrainNodeRequest, JobWordRequest, NodeWordRequest};

use super::call::{Client, Failed};

impl Client {
    /// Keeps a waiting job out of line; returns what it is then.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn hold(&self, job: u32, reason: &str) -> Result<String, Failed> {
        let request = self.job_word(job, reason).await?;
        let reply = self.ask(|mut control| {
            let request = request.clone();
            async move { control.hold_job(request).await }
        });
        Ok(reply.await?.state)
    }

    /// Puts a held job in line again; returns what it is then.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn release(&self, job: u32, reason: &str) -> Result<String, Failed> {
        let request = self.job_word(job, reason).await?;
        let reply = self.ask(|mut control| {
            let request = request.clone();
            async move { control.release_job(request).await }
        });
        Ok(reply.await?.state)
    }

    /// Has a live job save, stop and start again; returns what it is then.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn requeue(&self, job: u32, reason: &str) -> Result<String, Failed> {
        let request = self.job_word(job, reason).await?;
        let reply = self.ask(|mut control| {
            let request = request.clone();
            async move { control.requeue_job(request).await }
        });
        Ok(reply.await?.state)
    }

    async fn job_word(&self, job: u32, reason: &str) -> Result<JobWordRequest, Failed> {
        Ok(JobWordRequest { mark: Some(self.mark().await?), job, reason: reason.to_owned() })
    }

    /// Ends a job by its end signal and the grace of a cancel.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn cancel_softly(&self, job: u32) -> Result<String, Failed> {
        let mark = Some(self.mark().await?);
        let request = v1::CancelRequest { mark, job, now: false, reason: String::new() };
        let reply = self.ask(|mut control| {
            let request = request.clone();
            async move { control.cancel(request).await }
        });
        Ok(reply.await?.state)
    }

    /// Keeps new work from a node.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn cordon(&self, name: &str, reason: &str) -> Result<v1::NodeView, Failed> {
        let request = self.node_word(name, reason).await?;
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.cordon_node(request).await }
        })
        .await
    }

    /// Lets new work on a node again.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn uncordon(&self, name: &str) -> Result<v1::NodeView, Failed> {
        let request = self.node_word(name, "").await?;
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.uncordon_node(request).await }
        })
        .await
    }

    /// Wants a node empty, or asks what that would do; the request's mark is made here.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn drain(&self, request: DrainNodeRequest) -> Result<v1::DrainView, Failed> {
        let request = DrainNodeRequest { mark: Some(self.mark().await?), ..request };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.drain_node(request).await }
        })
        .await
    }

    /// Ends a drain, or takes one back.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn undrain(&self, name: &str) -> Result<v1::NodeView, Failed> {
        let request = self.node_word(name, "").await?;
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.undrain_node(request).await }
        })
        .await
    }

    async fn node_word(&self, name: &str, reason: &str) -> Result<NodeWordRequest, Failed> {
        let mark = Some(self.mark().await?);
        Ok(NodeWordRequest { mark, name: name.to_owned(), reason: reason.to_owned() })
    }

    /// Reads a node.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn node(&self, name: &str) -> Result<v1::NodeView, Failed> {
        let request = v1::ShowNodeRequest { read: None, name: name.to_owned() };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.show_node(request).await }
        })
        .await
    }

    /// Makes a token for a node to join with; `hash` is that of its text.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn node_token(&self, name: &str, hash: &[u8]) -> Result<(), Failed> {
        let request = v1::IssueNodeTokenRequest {
            mark: Some(self.mark().await?),
            name: name.to_owned(),
            pool: "main".to_owned(),
            token_hash: hash.to_vec(),
            valid_ms: 3_600_000,
            topology: String::new(),
        };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.issue_node_token(request).await }
        })
        .await?;
        Ok(())
    }

    /// Asks why: a job, an attempt or a decision.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn explain(&self, subject: &str) -> Result<v1::Explanation, Failed> {
        let request = v1::ExplainRequest { read: None, subject: subject.to_owned(), futures: Some(0) };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.explain(request).await }
        })
        .await
    }

    /// Reads what preemptions have cost since a moment.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn bill(&self, since_at: Option<u64>, by: &str) -> Result<v1::BillView, Failed> {
        let request = v1::BillRequest { read: None, since_at, by: by.to_owned() };
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.bill(request).await }
        })
        .await
    }

    /// Makes a tree the present one.
    ///
    /// # Errors
    /// When it is refused, or no replica answers.
    pub async fn apply_budgets(
        &self,
        request: &v1::BudgetApplyRequest,
    ) -> Result<v1::BudgetApplyReply, Failed> {
        self.ask(|mut control| {
            let request = request.clone();
            async move { control.budget_apply(request).await }
        })
        .await
    }
}
