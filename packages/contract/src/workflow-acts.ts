/**
 * What people do to a workflow run by hand: parts of it run again, tasks are set to a state, tasks are
 * skipped once. Each answers what comes of it, task by task; as a dry run that is the preview.
 */
import { z } from 'zod'
import { idSchema, instantSchema, jsonSchema, safeText } from './common.ts'
import { workflowDiffSchema } from './workflow-catalog.ts'
import { workflowRunSchema } from './workflow-runs.ts'
import { taskStates } from './workflow-words.ts'
import { taskIdSchema } from './workflow-paths.ts'

/** Tasks that one request names, at most. */
export const maxNamedTasks = 1_000
/** Things done by hand that are kept of a workflow run; older ones go first. */
export const maxKeptActs = 100
/** Tasks that the history names of each. */
export const maxActTasks = 20

/**
 * What runs again. `failed`: what failed, was canceled or was not run, and all that depends on it; `from`:
 * the named tasks and all that depends on them; `only`: the named tasks, and of what depends on them only
 * what never ran; `all`: every task.
 */
export const rerunSelections = ['failed', 'from', 'only', 'all'] as const
export type RerunSelectionWord = (typeof rerunSelections)[number]

/** States that a person can set. */
export const markStates = ['succeeded', 'failed', 'skipped'] as const
export type MarkState = (typeof markStates)[number]

const tasks = z.array(taskIdSchema).min(1).max(maxNamedTasks)
const reason = safeText(512, 1)

export const workflowRunRerunSchema = z
  .strictObject({
    what: z
      .enum(rerunSelections)
      .default('failed')
      .meta({
        description:
          '`failed`: what failed, was canceled or was not run, and all that depends on it; `from`: ' +
          '`tasks` and all that depends on them; `only`: `tasks`, and below them what never ran; `all`: ' +
          'every task',
      }),
    tasks: tasks.optional().meta({ description: 'Of `from` and `only`' }),
    skip: tasks.optional().meta({ description: 'Tasks that are skipped this once instead' }),
    input: jsonSchema.optional().meta({ description: 'Of the workflow run from now on; left out: as it is' }),
    version: z
      .enum(['pinned', 'newest'])
      .default('pinned')
      .meta({ description: '`newest`: the workflow run moves to the newest version of its workflow' }),
    reason: reason.optional(),
  })
  .superRefine(({ what, tasks: named }, context) => {
    const names = what === 'from' || what === 'only'
    if (names && named === undefined)
      context.addIssue({
        code: 'custom',
        path: ['tasks'],
        message: `is missing: name the tasks of "${what}"`,
      })
    if (!names && named !== undefined)
      context.addIssue({
        code: 'custom',
        path: ['tasks'],
        message: `goes with "what": "from" or "only", not with "${what}"`,
      })
  })
  .meta({ id: 'WorkflowRunRerun' })
export type WorkflowRunRerun = z.infer<typeof workflowRunRerunSchema>

export const workflowRunMarkSchema = z
  .strictObject({
    tasks,
    state: z.enum(markStates),
    reason,
    output: jsonSchema
      .optional()
      .meta({ description: 'What tasks below take as the output of the one task that is marked succeeded' }),
  })
  .superRefine(({ tasks: named, state, output }, context) => {
    if (output === undefined || (named.length === 1 && state === 'succeeded')) return
    const message = 'goes with one task that is marked "succeeded"; leave it out, or mark that task alone'
    context.addIssue({ code: 'custom', path: ['output'], message })
  })
  .meta({ id: 'WorkflowRunMark' })
export type WorkflowRunMark = z.infer<typeof workflowRunMarkSchema>

export const workflowRunSkipSchema = z
  .strictObject({ tasks, reason: reason.optional() })
  .meta({ id: 'WorkflowRunSkip' })
export type WorkflowRunSkip = z.infer<typeof workflowRunSkipSchema>

/**
 * What becomes of a task. `starts`: it starts now; `waits`: it is put back, and decided when its parents have
 * ended; `ends`: it is decided now, and does not run; `marked`: it has the state that was asked for; `kept`:
 * state, runs and output stay.
 */
export const actEffects = ['starts', 'waits', 'ends', 'marked', 'kept'] as const
export type ActEffect = (typeof actEffects)[number]

export const workflowRunActedSchema = z
  .strictObject({
    run: workflowRunSchema,
    done: z.boolean().meta({
      description: 'False: the same was asked for before and is under way; nothing was done this time',
    }),
    tasks: z.array(
      z.strictObject({
        id: z.string(),
        before: z.enum(taskStates).nullable().meta({ description: 'Null: a newer version brought it' }),
        after: z.enum(taskStates),
        effect: z.enum(actEffects),
      }),
    ),
    moved: z
      .strictObject({
        ...workflowDiffSchema.shape,
        added: z.array(z.string()).meta({ description: 'Tasks that came with the newer version' }),
        changed: z.array(z.string()).meta({ description: 'Tasks that differ in it' }),
        removed: z.array(z.string()).meta({ description: 'Tasks that are gone; their runs stay on record' }),
      })
      .nullable()
      .meta({ description: 'Of a rerun that moves the workflow run to a newer version' }),
  })
  .meta({ id: 'WorkflowRunActed' })
export type WorkflowRunActed = z.infer<typeof workflowRunActedSchema>

export const workflowActKinds = ['rerun', 'mark', 'skip'] as const
export type WorkflowActKind = (typeof workflowActKinds)[number]

export const workflowRunHistorySchema = z
  .strictObject({
    acts: z
      .array(
        z.strictObject({
          at: instantSchema,
          act: z.enum(workflowActKinds),
          by: z
            .strictObject({ keyId: idSchema, name: z.string() })
            .meta({ description: 'The API key, with the name that it had' }),
          what: z.string().meta({ description: 'Which tasks a rerun chose; the state of a mark' }),
          tasks: z
            .array(z.string())
            .meta({ description: `The first ${maxActTasks} that it put back or set` }),
          tasksTotal: z.int(),
          reason: z.string().nullable(),
          inputChanged: z.boolean(),
          version: z.int().meta({ description: 'The version from then on' }),
        }),
      )
      .meta({ description: `Newest first; the last ${maxKeptActs} are kept` }),
  })
  .meta({ id: 'WorkflowRunHistory' })
export type WorkflowRunHistory = z.infer<typeof workflowRunHistorySchema>
export type WorkflowRunAct = WorkflowRunHistory['acts'][number]
