/**
 * Who wants to know of answered requests: metrics. An observer never throws and never waits, and sees no
 * path, only the pattern of the route.
 */

export interface AnsweredRequest {
  readonly method: string
  /** The pattern of the route, never the path that was asked for; `unknown` where none fits. */
  readonly route: string
  readonly status: number
  readonly durationMs: number
}

export interface RequestObserver {
  answered(request: AnsweredRequest): void
}
