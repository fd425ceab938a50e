/**
 * `@belfry/sdk/functions`: the parts that a place where functions run is built of. For Belfry's own packages;
 * programs use `@belfry/sdk`.
 */
export { queueOf } from './functions/define-job.ts'
export { enqueueRequest } from './functions/enqueue.ts'
export type { FunctionAnswer } from './functions/run-function.ts'
export { runFunction } from './functions/run-function.ts'
export type { SentChunk } from './worker/log-buffer.ts'
export { createLogBuffer } from './worker/log-buffer.ts'
