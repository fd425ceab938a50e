/**
 * The one shape of every loop of the engine: scheduler, worker, rescuer, elector, pruner.
 * `start` returns when the service runs; `stop` when nothing of it runs any more, and may be called twice.
 */

export interface Service {
  readonly name: string
  start(): Promise<void>
  stop(): Promise<void>
}
