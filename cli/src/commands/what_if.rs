//! `bursar explain JOB --what-if k=v,...`: what would become of a waiting job if something were another.

use proto::v1::{ShareIf, WhatIfRequest};

use crate::codes;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::form::duration;
use crate::render;
use crate::shell::Shell;
use crate::submission::percent;

/// What can be asked.
const KNOWN: &str = "gpus=16, gpu-type=h100, cluster=main, min-runtime=1h, unallocated, turn=first, node=node-17 \
                     (back in service), share=language:60, cap=4h";

/// Runs the command.
///
/// # Errors
/// When the question cannot be read, is refused, or no replica answers.
pub async fn run(shell: &Shell, subject: &str, questions: &[String]) -> Result<Exit, Failure> {
    let asked = super::subject::job(subject)?;
    let mut request = read(0, questions)?;
    let client = shell.client()?;
    request.job = asked.number(&client).await?;
    let mut view = client.what_if(request).await?;
    super::schema(&mut view.schema, "what-if/v1");
    let name = if view.effect { "effect" } else { "no-effect" };
    shell.show(&view, &[name.to_owned()], |look| render::what_if::answer(&view, look))?;
    Ok(Exit::Done)
}

fn read(job: u32, questions: &[String]) -> Result<WhatIfRequest, Failure> {
    let mut request = WhatIfRequest { job, ..WhatIfRequest::default() };
    for question in questions {
        let (key, value) = question.split_once('=').unwrap_or((question, ""));
        take(&mut request, key.trim(), value.trim()).map_err(|what| {
            Failure::new(codes::USAGE, format!("--what-if {question}: {what}")).fix(format!("ask {KNOWN}"))
        })?;
    }
    Ok(request)
}

fn take(request: &mut WhatIfRequest, key: &str, value: &str) -> Result<(), String> {
    let length = |text: &str| duration::parse(text).map(|span| span.as_millis());
    match key {
        "gpus" => {
            let gpus = value.parse::<u32>().map_err(|_| format!("`{value}` is no number of GPUs"))?;
            request.gpus = Some(gpus);
        }
        "gpu-type" => request.gpu_type = Some(value.to_owned()),
        "cluster" => request.cluster = Some(value.to_owned()),
        "min-runtime" => request.min_runtime_ms = Some(length(value)?),
        "unallocated" if value.is_empty() => request.min_runtime_ms = Some(0),
        "turn" => request.turn = Some(value.to_owned()),
        "node" => request.nodes_back.push(value.to_owned()),
        "share" => {
            let (budget, share) = value.rsplit_once(':').ok_or("write share=BUDGET:PERCENT")?;
            request.shares.push(ShareIf { budget: budget.to_owned(), share_ppm: percent(share)? });
        }
        "cap" => request.cap_ms = Some(length(value)?),
        _ => return Err("that cannot be asked".to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn questions_are_read_together() {
        let asked: Vec<String> =
            ["gpus=16", "min-runtime=1h", "node=node-17", "share=a/b:12.5"].map(str::to_owned).to_vec();
        let request = read(7, &asked).expect("they can be asked");
        assert_eq!((request.gpus, request.min_runtime_ms), (Some(16), Some(3_600_000)));
        assert_eq!(request.nodes_back, ["node-17"]);
        assert_eq!((request.shares[0].budget.as_str(), request.shares[0].share_ppm), ("a/b", 125_000));
        for bad in ["gpus=x", "speed=2", "share=a", "unallocated=1", "min-runtime=fast"] {
            assert!(read(7, &[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
