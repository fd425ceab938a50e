/**
 * `@belfry/sdk/functions`: the parts that a place where functions run is built of. For Belfry's own packages;
 * programs use `@belfry/sdk`.
 */
export {
  anObject,
  checkArgument,
  checkOptions,
  flag,
  jobs as jobsRule,
  jsonOf,
  milliseconds,
  text,
  texts,
  whole,
} from './check-input.ts'
export { queueOf } from './functions/define-job.ts'
export { enqueueRequest } from './functions/enqueue.ts'
export { inParts, manyRequest } from './functions/enqueue-many.ts'
export { checkedProgress } from './functions/progress.ts'
export type { FunctionAnswer } from './functions/run-function.ts'
export { type Masking, maskingOf } from './functions/masking.ts'
export { runFunction } from './functions/run-function.ts'
export type { SentChunk } from './worker/log-buffer.ts'
export { lineOf } from './worker/log-line.ts'
export { type AttemptLog, createLogBuffer } from './worker/log-buffer.ts'
