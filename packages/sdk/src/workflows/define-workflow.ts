/**
 * A workflow as code: tasks are jobs as code, and what one answers is handed to the next with its type. It
 * compiles to the same definition that a file has; `client.workflows.apply(workflow.file)` stores it.
 *
 *     const nightly = defineWorkflow({ name: 'nightly' }, (w) => {
 *       const rows = w.task('extract', extract, { input: { day: w.run.scheduledFor } })
 *       w.task('load', load, { input: { rows: rows.output.rows } })
 *     })
 *
 * A task needs those whose outputs it takes, and those that it names. What is needed has to be there already,
 * so a circle cannot be written.
 */
import type {
  AtLimit,
  Condition,
  EndedTaskState,
  FailFastMode,
  InputSchema,
  JsonValue,
  RetryPolicy,
  TriggerRule,
  WorkflowFile,
} from '@belfry/contract'
import { BelfryError, workflowFileSchema } from '@belfry/contract'
import type { AnyJob, Job } from '../functions/define-job.ts'
import type { OutputOf, StandardSchema } from '../functions/standard-schema.ts'
import { type CompiledInput, compileInput } from './compile-input.ts'
import { makeRef, type Mapped, type Ref, type RunField, sourceOf } from './refs.ts'
import { type WaitingTasks, waitingTasks } from './waits.ts'

export interface WorkflowOptions<
  In extends StandardSchema | undefined,
  Out extends StandardSchema | undefined = undefined,
> {
  readonly name: string
  readonly description?: string
  /** Of a run; for types. */
  readonly input?: In
  /** Of a run, see `output` of the builder; for types. */
  readonly output?: Out
  /** JSON Schema of the input of a run, for the server. */
  readonly inputSchema?: InputSchema
  readonly failFast?: FailFastMode
  readonly timeoutMs?: number
  readonly priority?: number
  /** How many runs at once: of all, or of those with the same value at `key` of their input. */
  readonly concurrency?: ConcurrencyOption
}

type ConcurrencyOption = (
  | { readonly limit: number }
  | { readonly key: string; readonly keyLimit?: number }
) & { readonly onLimit?: AtLimit }

/** A task, whatever it answers. */
export interface AnyTask {
  readonly id: string
}

/** A task, to be needed by others. */
export interface Task<Result> extends AnyTask {
  readonly output: Ref<Result>
  /** For `when`: it ended in one of these. */
  readonly endedAs: (...states: readonly EndedTaskState[]) => Condition
}

export interface TaskOptions {
  /** Besides those whose outputs it takes. */
  readonly needs?: readonly AnyTask[]
  readonly rule?: TriggerRule
  readonly when?: Condition
  readonly allowFailure?: boolean
  readonly teardownOf?: AnyTask
  readonly retry?: Partial<RetryPolicy>
  readonly timeoutMs?: number
  readonly queue?: string
  readonly priority?: number
}

export interface EachOptions extends TaskOptions {
  readonly maxItems?: number
  readonly concurrency?: number
}

type InputOption<Input> = undefined extends Input
  ? { readonly input?: Mapped<Input> }
  : { readonly input: Mapped<Input> }
type Arguments<Input, Options> = undefined extends Input
  ? [options?: Options & InputOption<Input>]
  : [options: Options & InputOption<Input>]

/** Adds a task; the id is its name in the workflow. */
export type AddTask = <Input, Result>(
  id: string,
  job: Job<Input, Result>,
  ...rest: Arguments<Input, TaskOptions>
) => Task<Result>

export interface WorkflowBuilder<Input, Output = JsonValue> extends WaitingTasks {
  readonly input: Ref<Input>
  /** Of the workflow run. The times are those of its schedule, absent where there is none. */
  readonly run: { readonly [Field in RunField]: Ref<string> }
  readonly task: AddTask
  /** One run for each item of a list; its output is the list of theirs. */
  readonly forEach: <Item, Input, Result>(
    id: string,
    job: Job<Input, Result>,
    items: Ref<readonly Item[]> | Ref<Item[]> | readonly (Item & JsonValue)[],
    input: (item: Ref<Item>) => Mapped<Input>,
    options?: EachOptions,
  ) => Task<readonly Result[]>
  /** Runs once the tasks have ended and one has failed. */
  readonly onFailure: AddTask
  /** Runs last, however the rest ended: a task of `finally`. */
  readonly onEnd: AddTask
  /** What a run that succeeded gives. */
  readonly output: (value: Mapped<Output>) => void
}

export interface Workflow<Input, Output = unknown> {
  readonly name: string
  /** As a file has it. */
  readonly file: WorkflowFile
  /** The jobs that it runs, each once. */
  readonly jobs: readonly AnyJob[]
  /** For the compiler only. */
  readonly types?: { readonly input: Input; readonly output: Output }
}

type RunInput<In> = In extends StandardSchema ? OutputOf<In> : JsonValue
type Part = 'tasks' | 'onFailure' | 'finally'
type Drafts = { readonly [P in Part]: object[] } & { output?: CompiledInput }

/** Throws `invalid_request`, with a pointer to what does not fit. */
export function defineWorkflow<
  In extends StandardSchema | undefined = undefined,
  Out extends StandardSchema | undefined = undefined,
>(
  options: WorkflowOptions<In, Out>,
  build: (workflow: WorkflowBuilder<RunInput<In>, RunInput<Out>>) => void,
): Workflow<RunInput<In>, RunInput<Out>> {
  const { name, description, inputSchema, failFast, timeoutMs, priority, concurrency } = options
  const fields = { name, description, inputSchema, failFast, timeoutMs, priority, concurrency }
  const drafts: Drafts = { tasks: [], onFailure: [], finally: [] }
  const jobs = new Set<AnyJob>()
  build(builderOf(drafts, jobs))
  const { output, ...tasks } = drafts
  const outputFields = output && {
    outputFrom: output.mappings,
    ...(output.constant === undefined ? {} : { output: output.constant }),
  }
  const parsed = workflowFileSchema.safeParse({ ...fields, ...tasks, ...outputFields })
  if (parsed.success) return { name, file: parsed.data, jobs: [...jobs] }
  const errors = parsed.error.issues.map(({ path, message }) => {
    return { pointer: path.map((part) => `/${String(part)}`).join(''), message }
  })
  const words = errors.map(({ pointer, message }) => `${pointer} ${message}`).join('; ')
  throw new BelfryError('invalid_request', `The workflow cannot be defined like this: ${words}.`, { errors })
}

function builderOf<Input, Output>(drafts: Drafts, jobs: Set<AnyJob>): WorkflowBuilder<Input, Output> {
  const ids = new Set<string>()

  function add<Result>(
    part: Part,
    id: string,
    body: AnyJob | object,
    options: TaskOptions & { readonly input?: unknown },
    more: { readonly fields?: object; readonly needs?: readonly string[] } = {},
  ): Task<Result> {
    if (ids.has(id)) throw takenId(id)
    ids.add(id)
    const job = isJob(body) ? body : undefined
    if (job !== undefined) jobs.add(job)
    const { needs = [], teardownOf, input, timeoutMs, ...fields } = options
    const { constant, mappings, tasks } = compileInput(input, `the task "${id}"`)
    const all = new Set([...needs.map((task) => task.id), ...tasks, ...(more.needs ?? [])])
    drafts[part].push({
      ...fields,
      ...more.fields,
      id,
      ...(job === undefined ? body : { job: job.name }),
      needs: [...all],
      inputFrom: mappings,
      ...(constant === undefined ? {} : { input: constant }),
      ...(timeoutMs === undefined ? {} : { attemptTimeoutMs: timeoutMs }),
      ...(teardownOf === undefined ? {} : { teardownOf: teardownOf.id }),
    })
    return {
      id,
      output: makeRef({ origin: { kind: 'task', task: id, path: '' } }),
      endedAs: (...states) => ({ task: id, in: states }),
    }
  }

  const adds =
    (part: Part): AddTask =>
    (id, job, ...[options]) =>
      add(part, id, job as AnyJob, options ?? {})
  return {
    ...waitingTasks((id, body, options, takes = []) => add('tasks', id, body, options, { needs: takes })),
    input: makeRef({ origin: { kind: 'input', path: '' } }),
    output(value) {
      drafts.output = compileInput(value, 'the run, its output,')
    },
    run: runRefs(),
    task: adds('tasks'),
    onFailure: adds('onFailure'),
    onEnd: adds('finally'),
    forEach(id, job, items, input, { maxItems, concurrency, ...options } = {}) {
      const from = itemsOf(items, id)
      const bounds = {
        ...(maxItems === undefined ? {} : { maxItems }),
        ...(concurrency === undefined ? {} : { concurrency }),
      }
      const needs = 'task' in from ? [from.task] : []
      const item = makeRef<unknown>({ origin: { kind: 'item', path: '' } }) as never
      return add(
        'tasks',
        id,
        job as AnyJob,
        { ...options, input: input(item) },
        {
          fields: { forEach: { from, ...bounds } },
          needs,
        },
      )
    },
  }
}

const isJob = (body: AnyJob | object): body is AnyJob => 'name' in body

function runRefs(): WorkflowBuilder<unknown>['run'] {
  const ref = (field: RunField): Ref<string> => makeRef({ origin: { kind: 'run', field } })
  return {
    id: ref('id'),
    scheduledFor: ref('scheduledFor'),
    dataIntervalStart: ref('dataIntervalStart'),
    dataIntervalEnd: ref('dataIntervalEnd'),
  }
}

function itemsOf(items: object, id: string) {
  const origin = sourceOf(items)?.origin
  if (origin?.kind === 'task') return { task: origin.task, path: origin.path }
  if (origin?.kind === 'input') return { input: origin.path }
  if (Array.isArray(items)) return { items: items as readonly JsonValue[] }
  const message = 'runs for each of something that is no list; give an output, the input or a list'
  throw new BelfryError('invalid_request', `The task "${id}" ${message}.`)
}

function takenId(id: string): BelfryError {
  const message = `"${id}" is the id of another task; each needs its own`
  return new BelfryError('invalid_request', `The workflow cannot be defined like this: ${message}.`, {
    errors: [{ pointer: '/tasks', message }],
  })
}
