// Package calibrate finds the largest number of streams that a server takes: for which all [Limits] hold, and lag does not grow.
//
// A [Search] doubles, bisects, soaks at the result, and shows that one more fails. What it knows follows from its steps alone, so it continues from a
// saved list of them. It does no I/O and reads no clock: [Search.Measure] does. It takes at most [MostSteps] steps; noise makes it repeat steps and
// search again a bounded number of times, and then it ends without a result.
package calibrate
