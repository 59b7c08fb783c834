"use strict";

/** The rate that the recogniser takes, in samples per second, and the audio in a message: a tenth of a second. */
const SAMPLE_RATE = 16000;
const MESSAGE_SAMPLES = SAMPLE_RATE / 10;

/**
 * captureWorklet is the code of the audio worklet, which runs on the audio thread. It puts the microphone's samples into
 * messages of 16 bits, little-endian, mono, and tells how loud each is. Its source is handed over as text, because a page
 * that was opened as a file may not load a worklet from another file.
 */
function captureWorklet(sampleRateWanted, messageSamples) {
  registerProcessor(
    "capture",
    class extends AudioWorkletProcessor {
      constructor() {
        super();
        this.resampler = new Resampler(sampleRate, sampleRateWanted);
        this.begin();
        this.port.onmessage = () => {
          this.take(this.resampler.flush());
          this.send();
          this.port.postMessage({ end: true });
          this.ended = true;
        };
      }

      begin() {
        this.message = new DataView(new ArrayBuffer(2 * messageSamples));
        this.length = 0; // samples
        this.energy = 0;
      }

      process([channels]) {
        if (this.ended) return false;
        if (channels.length > 0) this.take(this.resampler.process(channels[0]));
        return true;
      }

      take(samples) {
        for (const sample of samples) {
          const clipped = Math.max(-1, Math.min(1, sample));
          this.message.setInt16(2 * this.length++, Math.round(clipped * 32767), true);
          this.energy += clipped * clipped;
          if (this.length === messageSamples) this.send();
        }
      }

      send() {
        if (this.length === 0) return;
        const audio = this.message.buffer.slice(0, 2 * this.length);
        this.port.postMessage({ audio, level: Math.sqrt(this.energy / this.length) }, [audio]);
        this.begin();
      }
    },
  );
}

/** Returns an address that the code can be loaded from. Pages from files may not load blobs, others need not allow data. */
function address(code) {
  if (location.protocol === "file:") return `data:text/javascript,${encodeURIComponent(code)}`;
  return URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
}

/**
 * Microphone calls onAudio(audio, level) for each message of audio, an ArrayBuffer and its loudness from 0 to 1, and
 * onLost() when it was unplugged or taken away.
 */
class Microphone {
  static async open(onAudio, onLost) {
    if (!navigator.mediaDevices) {
      throw new Error("The browser gives the microphone to pages from https, localhost or a file only.");
    }
    const microphone = new Microphone();
    try {
      await microphone.start(onAudio, onLost);
    } catch (error) {
      microphone.close();
      throw error;
    }
    return microphone;
  }

  async start(onAudio, onLost) {
    this.stream = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
    for (const track of this.stream.getTracks()) track.onended = onLost;
    this.context = new AudioContext();
    const code = `${Resampler}\n(${captureWorklet})(${SAMPLE_RATE}, ${MESSAGE_SAMPLES});`;
    await this.context.audioWorklet.addModule(address(code));
    this.node = new AudioWorkletNode(this.context, "capture", { channelCount: 1, channelCountMode: "explicit", numberOfOutputs: 0 });
    this.ended = new Promise((resolve) => {
      this.node.port.onmessage = ({ data }) => (data.end ? resolve() : onAudio(data.audio, data.level));
    });
    this.context.createMediaStreamSource(this.stream).connect(this.node);
    await this.context.resume();
  }

  /** Ends the recording. What was recorded has been passed on when it returns. */
  async finish() {
    this.node.port.postMessage("end");
    await this.ended;
    this.close();
  }

  /** Gives the microphone back at once. */
  close() {
    if (this.stream) for (const track of this.stream.getTracks()) track.stop();
    if (this.context && this.context.state !== "closed") this.context.close();
  }
}
