/**
 * Why a workflow run, or a task of it, is where it is: the first cause that holds or held it, since when, and
 * what clears it. Where that is a run, the run's own explanation comes along.
 */
import { z } from 'zod'
import { idSchema, instantSchema, nameSchema } from './common.ts'
import { runExplanationSchema } from './run-explanations.ts'
import { workflowRunStates } from './workflow-runs.ts'
import { taskStates } from './workflow-words.ts'
import { taskIdSchema } from './workflow-paths.ts'

/**
 * What was found. Of what goes on: `at_work` a run of the task, or what holds that run; `approval`, `signal`,
 * `time`, `sub_workflow` what a task without a job waits for; `waits_for_tasks` those that it needs;
 * `waits_for_part` the tasks before `onFailure` and `finally`; `waits_for_turn` other workflow runs;
 * `undecided` a resolver has yet to look. Of what ended: `ended` as its run did; `set_by_hand`; `no_run` it
 * failed without one; `rule_not_met`, `condition_false`, `not_chosen` (by a branch), `no_items`,
 * `nothing_failed` (of `onFailure`), `stopped` (by a cancel, a timeout or fail-fast).
 */
export const workflowVerdicts = [
  'at_work',
  'approval',
  'signal',
  'time',
  'sub_workflow',
  'waits_for_tasks',
  'waits_for_part',
  'waits_for_turn',
  'undecided',
  'ended',
  'set_by_hand',
  'no_run',
  'rule_not_met',
  'condition_false',
  'not_chosen',
  'no_items',
  'nothing_failed',
  'stopped',
] as const
export type WorkflowVerdict = (typeof workflowVerdicts)[number]

/** Tasks that an explanation names, at most. */
export const maxExplainedTasks = 20

export const workflowExplainQuery = z.strictObject({
  task: taskIdSchema.optional().meta({ description: 'Of this task; left out: of the workflow run' }),
})

export const workflowRunExplanationSchema = z
  .strictObject({
    workflowRunId: idSchema,
    workflow: nameSchema,
    version: z.int(),
    state: z.enum(workflowRunStates),
    task: z
      .string()
      .nullable()
      .meta({ description: 'The task that was asked for, or that is the cause; null: no single one is' }),
    taskState: z.enum(taskStates).nullable(),
    verdict: z.enum(workflowVerdicts),
    message: z.string().meta({ description: 'In words: what holds it, or why it ended so' }),
    since: instantSchema.nullable().meta({ description: 'Since when that is so, where it is known' }),
    clearsAt: instantSchema.nullable().meta({ description: 'When it passes by itself, where that is known' }),
    fix: z.string().nullable().meta({ description: 'What can be done, in words' }),
    needs: z
      .array(z.strictObject({ id: z.string(), state: z.enum(taskStates) }))
      .meta({ description: `What the task needs, those that hold it first; at most ${maxExplainedTasks}` }),
    needsTotal: z.int(),
    causes: z
      .array(z.string())
      .meta({ description: 'From the task to the first cause: each waits for the next, or failed by it' }),
    run: runExplanationSchema
      .nullable()
      .meta({ description: 'Of the run that is the first cause, where one is' }),
    now: instantSchema,
  })
  .meta({ id: 'WorkflowRunExplanation' })
export type WorkflowRunExplanation = z.infer<typeof workflowRunExplanationSchema>
