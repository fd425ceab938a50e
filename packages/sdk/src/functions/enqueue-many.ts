/**
 * Asking for many runs of one job: every input is checked before anything is sent, and what is sent goes in
 * calls that are as large as the API takes.
 */
import type { JsonValue, RunCreate, RunReceipt } from '@belfry/contract'
import { BelfryError, maxBatchBytes, maxBatchItems, utf8Bytes } from '@belfry/contract'
import type { Requester } from '../requester.ts'
import type { CallOptions } from '../route-types.ts'
import type { AnyJob } from './define-job.ts'
import type { EnqueueOptions } from './enqueue.ts'
import { checkArgument } from '../check-input.ts'
import { checkedInput, checkManyOptions, enqueueBody } from './enqueue.ts'

export interface EnqueueManyOptions<Input>
  extends Omit<EnqueueOptions, 'dedupeKey' | 'idempotencyKey' | 'ifMatch'> {
  /** The dedupe key of the run of an input; undefined: none. */
  readonly dedupeKey?: ((input: Input, index: number) => string | undefined) | undefined
}

export interface ManyRequest extends CallOptions {
  /** What the runs have in common. */
  readonly body: RunCreate
  readonly inputs: readonly (JsonValue | undefined)[]
  readonly dedupeKeys: readonly (string | undefined)[] | undefined
}

const aList = { what: 'a list of inputs', fits: Array.isArray }
/** Room for what stands around the items. */
const envelopeBytes = 1_024

/** Throws `invalid_request`, with pointers below `/inputs/N`. */
export async function manyRequest<Input>(
  job: AnyJob,
  inputs: readonly Input[],
  given: EnqueueManyOptions<Input> = {},
): Promise<ManyRequest> {
  checkManyOptions(given)
  checkArgument('enqueueMany', '/inputs', inputs, aList)
  const { dedupeKey, dedupe, ...options } = given
  const { body, ...call } = enqueueBody(job, undefined, options)
  if (job.input !== undefined)
    for (const [index, input] of inputs.entries()) await checkedInput(job, input, `/inputs/${index}`)
  return {
    ...call,
    body: dedupe === undefined ? body : { ...body, dedupe },
    inputs: inputs as readonly unknown[] as readonly JsonValue[],
    dedupeKeys: dedupeKey === undefined ? undefined : inputs.map(dedupeKey),
  }
}

/** Calls of at most 1,000 runs, each all or nothing, one after the other. Throws as the first that fails. */
export async function sendMany(requester: Requester, request: ManyRequest): Promise<readonly RunReceipt[]> {
  const { body, inputs, dedupeKeys, ...call } = request
  const { dedupe, ...common } = body
  const items = inputs.map((input, index) => {
    const dedupeKey = dedupeKeys?.[index]
    return { ...common, input, ...(dedupeKey === undefined ? {} : { dedupeKey, dedupe }) }
  })
  const receipts: RunReceipt[] = []
  for (const part of inParts(items)) {
    const answer = await requester.request('runBatch', { ...call, body: { items: part, atomic: true } })
    for (const { run } of answer.results) {
      if (run === null)
        throw new BelfryError('invalid_response', 'The server took a run and does not say which.')
      receipts.push(run)
    }
  }
  return receipts
}

/** Items in calls that the API takes: by their number, and by their bytes as JSON. */
export function* inParts<Item>(items: readonly Item[]): Generator<Item[]> {
  let part: Item[] = []
  let bytes = envelopeBytes
  for (const item of items) {
    const size = utf8Bytes(JSON.stringify(item)) + 1
    if (part.length === maxBatchItems || (part.length > 0 && bytes + size > maxBatchBytes)) {
      yield part
      part = []
      bytes = envelopeBytes
    }
    part.push(item)
    bytes += size
  }
  if (part.length > 0) yield part
}
