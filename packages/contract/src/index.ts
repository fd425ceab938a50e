/**
 * The contract: what every part of Belfry, and everybody who speaks to it, agrees on. The only edge of this
 * package; it depends on nothing but zod.
 */
export * from './access.ts'
export * from './backfills.ts'
export * from './calendars.ts'
export * from './common.ts'
export * from './errors.ts'
export type * from './events.ts'
export * from './explanations.ts'
export * from './jobs.ts'
export * from './nearest.ts'
export * from './routes.ts'
export * from './runs.ts'
export * from './schedule-actions.ts'
export * from './schedules.ts'
export * from './servers.ts'
export * from './states.ts'
export * from './workers.ts'
export * from './workflow-catalog.ts'
export * from './workflow-runs.ts'
export * from './workflow-words.ts'
export * from './workflows.ts'
