"use strict";

/**
 * Resampler changes the sample rate of audio that comes piece by piece. Frequencies that the new rate has no room for are
 * taken out first: each new sample is the sum of the old ones around it, weighted by a sinc under a Hann window. The weights
 * repeat after a few samples (after one from 48 to 16 kHz, after 160 from 44.1 to 16 kHz), so they are computed once.
 *
 * It runs in the audio worklet, so it must not refer to anything outside of itself.
 */
class Resampler {
  constructor(from, to) {
    let [divisor, rest] = [from, to];
    while (rest) [divisor, rest] = [rest, divisor % rest];
    this.up = to / divisor;
    this.down = from / divisor;
    const lobes = 16; // zero crossings of the sinc on each side: more make the filter steeper
    this.cutoff = 0.95 * Math.min(1, to / from); // a little below, since the filter has a slope
    this.reach = Math.ceil(lobes / this.cutoff); // old samples on each side of a new one
    this.filters = new Array(this.up); // by the new sample's place between two old ones
    this.waiting = new Float32Array(this.reach); // old samples that are still needed; silence before the first
    this.at = 0; // place of the next new sample, in old samples times up, since waiting[reach]
  }

  filter(phase) {
    if (this.filters[phase]) return this.filters[phase];
    const weights = new Float32Array(2 * this.reach + 1);
    let sum = 0;
    for (let i = 0; i < weights.length; i++) {
      const distance = i - this.reach - phase / this.up;
      if (Math.abs(distance) >= this.reach) continue;
      const x = Math.PI * distance * this.cutoff;
      weights[i] = (x ? Math.sin(x) / x : 1) * (1 + Math.cos((Math.PI * distance) / this.reach));
      sum += weights[i];
    }
    return (this.filters[phase] = weights.map((w) => w / sum));
  }

  /** Takes the next samples and returns the new ones that they complete. */
  process(samples) {
    const input = new Float32Array(this.waiting.length + samples.length);
    input.set(this.waiting);
    input.set(samples, this.waiting.length);
    const output = [];
    let first = Math.floor(this.at / this.up); // of the samples that the next new one is made of
    while (first + 2 * this.reach < input.length) {
      const weights = this.filter(this.at % this.up);
      let sum = 0;
      for (let i = 0; i < weights.length; i++) sum += weights[i] * input[first + i];
      output.push(sum);
      this.at += this.down;
      first = Math.floor(this.at / this.up);
    }
    const used = Math.min(first, input.length);
    this.waiting = input.slice(used);
    this.at -= used * this.up;
    return output;
  }

  /** Returns the new samples that were waiting for more old ones. */
  flush() {
    return this.process(new Float32Array(this.reach));
  }
}
