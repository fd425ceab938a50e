/**
 * Whether the database gave something up because it took too long. What failed for want of a connection says
 * nothing of how long it takes.
 */
import { BelfryError } from '@belfry/contract'

export const ranOutOfTime = (error: unknown): boolean =>
  error instanceof BelfryError && error.code === 'database_timeout'
