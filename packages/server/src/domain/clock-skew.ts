/**
 * When a clock is called off. Belfry itself goes by the clock of the database; what suffers are people, who
 * compare times, and what else runs on that machine.
 */
const alarmingSkewMs = 1_000

/** The skew was measured to within `errorMs`: where that leaves room for less, nothing is said. */
export const isAlarmingSkew = (skewMs: number, errorMs: number): boolean =>
  Math.abs(skewMs) - errorMs >= alarmingSkewMs
