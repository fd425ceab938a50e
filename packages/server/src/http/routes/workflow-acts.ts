/**
 * Endpoints of what people do to a workflow run by hand (engine/catalog/workflow-acts.ts): a rerun, a mark, a
 * skip, and the history of them.
 */
import type { WorkflowRunActed } from '@belfry/contract'
import type { ActParts } from '../../engine/catalog/workflow-act-facts.ts'
import { type Acted, mark, rerun, skip } from '../../engine/catalog/workflow-acts.ts'
import type { CatalogTx } from '../../ports/catalog.ts'
import type { HeldWorkflowRun } from '../../ports/workflow-acts.ts'
import type { Answer, Call, Endpoints } from '../endpoint.ts'
import { checkIfMatch } from '../etag.ts'
import { noSuch } from '../missing.ts'
import { actedTasks, movedView } from '../workflow-act-views.ts'
import { workflowRunView } from '../workflow-run-views.ts'

type ActRoute = 'workflowRunRerun' | 'workflowRunMark' | 'workflowRunSkip'

export const workflowActEndpoints: Pick<Endpoints, ActRoute | 'workflowRunHistory'> = {
  workflowRunRerun: {
    as: 'tenant',
    answer: (call) => act(call, (parts, held) => rerun(parts, held, call.body)),
  },
  workflowRunMark: {
    as: 'tenant',
    answer: (call) => act(call, (parts, held) => mark(parts, held, call.body)),
  },
  workflowRunSkip: {
    as: 'tenant',
    answer: (call) => act(call, (parts, held) => skip(parts, held, call.body)),
  },
  workflowRunHistory: {
    as: 'tenant',
    async answer({ tx, params }) {
      const run = await stored(tx, params.id)
      return { body: { acts: [...run.acts] }, version: run.revision }
    },
  },
}

async function act(
  {
    tx,
    params,
    credential,
    ifMatch,
    after,
  }: Pick<Call<'workflowRunRerun', CatalogTx>, 'tx' | 'params' | 'credential' | 'ifMatch' | 'after'>,
  doIt: (parts: ActParts, held: HeldWorkflowRun) => Promise<Acted>,
): Promise<Answer<ActRoute>> {
  const { id } = params
  // held from here on, so that what If-Match names is what is acted on
  const held = await tx.workflows.acts.hold(id)
  if (held === undefined) throw noSuch('workflow run', id)
  checkIfMatch(ifMatch, held.revision)
  const acted = await doIt({ tx, keyId: credential.keyId }, held)
  for (const hint of acted.hints) after({ kind: 'hint', hint })
  const run = await stored(tx, id)
  const body: WorkflowRunActed = {
    run: workflowRunView(run),
    done: acted.done,
    tasks: actedTasks(acted),
    moved: movedView(acted.moved),
  }
  return { body, version: run.revision, audited: { subjectName: run.workflowName } }
}

async function stored(tx: CatalogTx, id: string) {
  const run = await tx.workflows.runs.find(id)
  if (run === undefined) throw noSuch('workflow run', id)
  return run
}
